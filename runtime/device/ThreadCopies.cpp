//===- ThreadCopies.cpp - Copies by threads of the host -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/device/ThreadCopies.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

using namespace fsdp;

namespace {

/// One direction.
class CopyThread {
public:
  explicit CopyThread(double bandwidth)
      : bandwidth(bandwidth), thread([this] { run(); }) {}
  ~CopyThread() {
    {
      std::lock_guard lock(mutex);
      isOver = true;
    }
    wake.notify_one();
    thread.join();
  }
  CopyThread(const CopyThread &) = delete;
  CopyThread &operator=(const CopyThread &) = delete;

  /// Returns the copy's number, from 1.
  uint64_t start(std::span<const Copies::Part> parts) {
    uint64_t number;
    {
      std::lock_guard lock(mutex);
      queue.push_back(parts);
      number = ++started;
    }
    wake.notify_one();
    return number;
  }

  void wait(uint64_t number) {
    std::unique_lock lock(mutex);
    ended.wait(lock, [&] { return done >= number; });
  }

private:
  using Clock = std::chrono::steady_clock;
  /// Small enough for the bus to be held back evenly, and for caches.
  static constexpr uint64_t kPiece = 1 << 20;

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait(lock, [&] { return isOver || !queue.empty(); });
      if (queue.empty())
        return;
      std::span<const Copies::Part> parts = queue.front();
      queue.pop_front();
      lock.unlock();
      copy(parts);
      lock.lock();
      ++done;
      ended.notify_all();
    }
  }

  void copy(std::span<const Copies::Part> parts) {
    if (bandwidth > 0 && free < Clock::now())
      free = Clock::now();
    for (const Copies::Part &part : parts)
      for (uint64_t at = 0; at < part.bytes; at += kPiece) {
        uint64_t bytes = std::min(kPiece, part.bytes - at);
        std::memcpy(static_cast<char *>(part.to) + at,
                    static_cast<const char *>(part.from) + at, bytes);
        if (bandwidth > 0) {
          free += std::chrono::duration_cast<Clock::duration>(
              std::chrono::duration<double>(static_cast<double>(bytes) /
                                            bandwidth));
          std::this_thread::sleep_until(free);
        }
      }
  }

  const double bandwidth;
  std::mutex mutex;
  std::condition_variable wake, ended;
  std::deque<std::span<const Copies::Part>> queue;
  uint64_t started = 0, done = 0;
  bool isOver = false;
  Clock::time_point free; ///< when the bus is
  std::thread thread;     ///< last: it uses all others
};

class ThreadCopies final : public Copies {
public:
  explicit ThreadCopies(double bandwidth)
      : upload(bandwidth), download(bandwidth) {}

  Slot reserve(plan::Stream stream) override {
    slots.push_back({stream == plan::Stream::upload ? &upload : &download, 0});
    return static_cast<Slot>(slots.size() - 1);
  }

  void start(Slot slot, std::span<const Part> parts) override {
    slots[slot].number = slots[slot].thread->start(parts);
  }

  void wait(Slot slot) override {
    slots[slot].thread->wait(slots[slot].number);
  }

  void join() override {} // whoever waited has waited

private:
  struct Place {
    CopyThread *thread;
    uint64_t number; ///< of its last copy
  };
  CopyThread upload, download;
  std::vector<Place> slots;
};

} // namespace

std::unique_ptr<Copies> fsdp::makeThreadCopies(double bandwidth) {
  return std::make_unique<ThreadCopies>(bandwidth);
}
