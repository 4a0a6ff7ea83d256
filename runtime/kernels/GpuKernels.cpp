//===- GpuKernels.cpp - Programs of kernels, ready on a GPU ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/kernels/GpuKernels.h"

#include "kernels/CodeLibrary.h"
#include "plan/Kernels.h"
#include "support/Error.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>
#include <tuple>

using namespace fsdp;
using plan::KernelProgramT;

/// What vectors of memory are aligned to.
static constexpr uint64_t kAligned = 16;

static std::string explain(const driver::Functions &driver,
                           driver::Result result) {
  const char *name = nullptr, *text = nullptr;
  (void)driver.getErrorName(result, &name);
  (void)driver.getErrorString(result, &text);
  std::string number = std::to_string(static_cast<int>(result));
  return (text ? text : "unknown error") + std::string(" (") +
         (name ? name : number) + ")";
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

GpuModule::GpuModule(const driver::Functions &driver, int capability,
                     const KernelProgramT &program, const GivenCode &given)
    : driver(driver), name(program.name),
      code(makeGpuCode(program, capability, given)) {
  auto check = [&](driver::Result result, const std::string &what) {
    if (result != driver::Result::success)
      throw Error(ErrorId::KernelsUnusable, "kernel '" + name +
                                                "': the driver " + what + ": " +
                                                explain(driver, result));
  };
  std::string log(4096, '\0');
  driver::JitOption options[] = {driver::JitOption::errorLog,
                                 driver::JitOption::errorLogBytes};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
  driver::Result loaded =
      driver.moduleLoadDataEx(&handle, code->ptx.c_str(), 2, options, values);
  log.resize(std::min(log.size(), log.find('\0')));
  check(loaded,
        "does not take its code" +
            (log.empty() ? std::string() : ", of which it says '" + log + "'"));
  // All of them now: the driver may wait for the device when it loads one.
  for (const PtxLaunch &launch : code->launches) {
    GpuEntry &entry = entries.emplace_back();
    entry.launch = &launch;
    check(
        driver.moduleGetFunction(&entry.function, handle, launch.entry.c_str()),
        "finds no '" + launch.entry + "' in its code");
  }
}

GpuEntry GpuModule::find(const std::string &entry) const {
  for (const GpuEntry &each : entries)
    if (each.launch->entry == entry)
      return each;
  throw Error(ErrorId::KernelsUnusable,
              "kernel '" + name + "' has no '" + entry + "' in its code");
}

std::shared_ptr<const GpuModule> GpuKernels::load(const KernelProgramT &program,
                                                  const GivenCode &given) {
  struct Place {
    std::mutex mutex;
    std::shared_ptr<const GpuModule> module;
  };
  // By who would be asked, and for what. Never freed: see GpuModule. What is
  // called otherwise is other code, so that errors name it.
  using Key = std::tuple<const driver::Functions *, int, std::string>;
  static std::mutex mutex;
  static auto &places = *new std::map<Key, std::unique_ptr<Place>>();
  Place *place = nullptr;
  {
    std::lock_guard lock(mutex);
    auto &found = places[{
        &driver, device,
        serialize(program) + std::string(given.take(targetOfGpu(capability)))}];
    if (!found)
      found = std::make_unique<Place>();
    place = found.get();
  }
  std::lock_guard lock(place->mutex);
  if (!place->module)
    place->module =
        std::make_shared<GpuModule>(driver, capability, program, given);
  return place->module;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

GpuKernelCall::GpuKernelCall(std::shared_ptr<const GpuModule> loaded,
                             const KernelProgramT &program,
                             std::vector<void *> operands)
    : module(std::move(loaded)) {
  const uint64_t partialRows = module->find("kernel").launch->partialRows;
  Launch whole;
  std::vector<Launch> sums;
  bool isAligned = true;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!takesRowSum(program, i)) {
      isAligned &= reinterpret_cast<uintptr_t>(operands[i]) % kAligned == 0;
      whole.arguments.push_back({operands[i], 0, false});
      continue;
    }
    whole.arguments.push_back({nullptr, scratch, true});
    sums.push_back({module->find("sum_" + std::to_string(i)),
                    {{nullptr, scratch, true}, {operands[i], 0, false}}});
    uint64_t bytes = partialRows * program.operands[i]->columns * sizeof(float);
    scratch += (bytes + kAligned - 1) / kAligned * kAligned;
  }
  whole.entry = module->find(isAligned ? "kernel_aligned" : "kernel");
  launches.push_back(std::move(whole));
  std::ranges::move(sums, std::back_inserter(launches));
  std::erase_if(launches, [](const Launch &launch) {
    return launch.entry.launch->blocks == 0;
  });
}

void GpuKernelCall::run(char *at, StreamHandle stream) const {
  if (reinterpret_cast<uintptr_t>(at) % kAligned != 0)
    throw std::logic_error("memory of a kernel begins at no multiple of 16");
  constexpr size_t kMost = kMaxKernelOperands;
  void *addresses[kMost], *parameters[kMost];
  for (const auto &[entry, arguments] : launches) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      addresses[i] = arguments[i].isScratch ? at + arguments[i].offset
                                            : arguments[i].address;
      parameters[i] = &addresses[i];
    }
    const PtxLaunch &launch = *entry.launch;
    driver::Result result = module->driver.launchKernel(
        entry.function, launch.blocks, 1, 1, launch.threads, 1, 1, 0, stream,
        parameters, nullptr);
    if (result != driver::Result::success)
      throw Error(ErrorId::DeviceFailed,
                  "kernel '" + module->name + "' cannot be started as '" +
                      launch.entry + "', " + std::to_string(launch.blocks) +
                      " blocks of " + std::to_string(launch.threads) +
                      " threads: " + explain(module->driver, result));
  }
}
