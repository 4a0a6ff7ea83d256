//===- Launch.cpp - A block's threads as fibers ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cuda_runtime.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ucontext.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FSDP_ADDRESS_SANITIZER
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define FSDP_ADDRESS_SANITIZER
#endif
#ifdef FSDP_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

using namespace fsdp::on_host;

namespace {

constexpr size_t kStackBytes = 256 << 10;
constexpr unsigned kWarp = 32;

/// Whom a thread waits for.
enum class For { nobody, warp, block };

/// A thread of a block, with a stack of its own.
class Fiber {
public:
  Fiber() : stack(new char[kStackBytes]) {}

  void begin(const std::function<void()> &function) {
    body = &function;
    isOver_ = false;
    waits = For::nobody;
    getcontext(&own);
    own.uc_stack.ss_sp = stack.get();
    own.uc_stack.ss_size = kStackBytes;
    own.uc_link = nullptr;
    makecontext(&own, &Fiber::enter, 0);
  }

  /// Until its end or its next barrier.
  void resume() {
    current = this;
    switchTo(own, stack.get(), kStackBytes, back, &backStack);
    current = nullptr;
    if (error)
      std::rethrow_exception(std::exchange(error, nullptr));
  }

  void pause(For whom) {
    waits = whom;
    leave();
  }

  bool isOver() const { return isOver_; }
  bool isReady() const { return !isOver_ && waits == For::nobody; }

  For waits = For::nobody;

  static Fiber *current;

private:
  static void enter() {
    Fiber &self = *current;
    self.arrived(nullptr);
    try {
      (*self.body)();
    } catch (...) {
      self.error = std::current_exception();
    }
    self.isOver_ = true;
    self.leave();
  }

  void leave() {
#ifdef FSDP_ADDRESS_SANITIZER
    // Of a fiber that is over the sanitizer keeps nothing.
    __sanitizer_start_switch_fiber(isOver_ ? nullptr : &fake, outside,
                                   outsideBytes);
#endif
    swapcontext(&own, &back);
    arrived(fake);
  }

  void arrived([[maybe_unused]] void *saved) {
#ifdef FSDP_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(saved, &outside, &outsideBytes);
#endif
  }

  static void switchTo(ucontext_t &to, [[maybe_unused]] void *stack,
                       [[maybe_unused]] size_t bytes, ucontext_t &from,
                       [[maybe_unused]] void **saved) {
#ifdef FSDP_ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(saved, stack, bytes);
#endif
    swapcontext(&from, &to);
#ifdef FSDP_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(*saved, nullptr, nullptr);
#endif
  }

  const std::unique_ptr<char[]> stack;
  const std::function<void()> *body = nullptr;
  bool isOver_ = false;
  std::exception_ptr error;
  ucontext_t own, back;
  // What the address sanitizer keeps for the stacks.
  void *fake = nullptr, *backStack = nullptr;
  const void *outside = nullptr;
  size_t outsideBytes = 0;
};

Fiber *Fiber::current = nullptr;

std::vector<unsigned> arrange(unsigned count) {
  std::vector<unsigned> all(count);
  std::iota(all.begin(), all.end(), 0);
  if (order == Order::backward)
    std::ranges::reverse(all);
  else if (order == Order::shuffled)
    std::shuffle(all.begin(), all.end(), std::mt19937(count));
  return all;
}

using Fibers = std::vector<std::unique_ptr<Fiber>>;

/// Lets threads go on if all of them wait for each other; false: they do not.
bool release(Fibers &fibers, unsigned begin, unsigned end, For whom) {
  auto first = fibers.begin() + begin, last = fibers.begin() + end;
  if (!std::all_of(first, last, [&](const auto &fiber) {
        return !fiber->isOver() && fiber->waits == whom;
      }))
    return false;
  std::for_each(first, last, [](auto &fiber) { fiber->waits = For::nobody; });
  return true;
}

bool releaseAll(Fibers &fibers, unsigned threads) {
  bool any = release(fibers, 0, threads, For::block);
  for (unsigned warp = 0; warp < threads; warp += kWarp)
    any |= release(fibers, warp, std::min(warp + kWarp, threads), For::warp);
  return any;
}

void runBlock(unsigned threads, const std::function<void()> &thread) {
  static Fibers fibers;
  while (fibers.size() < threads)
    fibers.push_back(std::make_unique<Fiber>());
  std::vector<unsigned> first = arrange(threads);
  for (unsigned index : first)
    fibers[index]->begin(thread);
  while (true) {
    for (unsigned index : first) {
      if (!fibers[index]->isReady())
        continue;
      threadIdx = dim3(index);
      fibers[index]->resume();
    }
    auto over =
        std::count_if(fibers.begin(), fibers.begin() + threads,
                      [](const auto &fiber) { return fiber->isOver(); });
    if (over == threads)
      return;
    if (!releaseAll(fibers, threads))
      throw std::logic_error(
          "__syncthreads or __shfl_xor_sync: " + std::to_string(over) + " of " +
          std::to_string(threads) +
          " threads of a block ended, and others wait for them or elsewhere");
  }
}

} // namespace

void __syncthreads() { Fiber::current->pause(For::block); }

uint32_t __shfl_xor_sync(unsigned lanes, uint32_t value, int otherLane) {
  static uint32_t values[1024];
  if (lanes != 0xFFFFFFFF || otherLane < 0 || otherLane >= int(kWarp))
    throw std::logic_error("__shfl_xor_sync: not of a whole warp");
  unsigned own = threadIdx.x;
  values[own] = value;
  Fiber::current->pause(For::warp);
  uint32_t theirs = values[own ^ unsigned(otherLane)];
  // Nobody writes again before all have read.
  Fiber::current->pause(For::warp);
  return theirs;
}

cudaError_t fsdp::on_host::launch(const cudaLaunchConfig_t &config,
                                  const std::function<void()> &thread) {
  unsigned threads = config.blockDim.x, blocks = config.gridDim.x;
  // What is launched is one line of threads, within CUDA's limits.
  if (threads == 0 || threads > 1024 || blocks == 0 || blocks > 0x7fffffff ||
      config.blockDim.y * config.blockDim.z * config.gridDim.y *
              config.gridDim.z !=
          1 ||
      config.dynamicSmemBytes != 0 || config.numAttrs != 0)
    return cudaErrorInvalidConfiguration;
  blockDim = config.blockDim;
  gridDim = config.gridDim;
  for (unsigned block : arrange(blocks)) {
    blockIdx = dim3(block);
    runBlock(threads, thread);
  }
  return cudaSuccess;
}
