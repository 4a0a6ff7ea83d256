//===- ThreadPeers.h - Peers that are threads of a test ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_COMM_THREADPEERS_H
#define FSDP_TEST_UNIT_RUNTIME_COMM_THREADPEERS_H

#include "runtime/comm/Peers.h"
#include "runtime/comm/StopRound.h"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace fsdp::test {

/// What ranks that are threads leave for each other, as if each were a process.
struct ThreadMeeting {
  explicit ThreadMeeting(int worldSize) : worldSize(worldSize) {}

  const int worldSize;
  std::mutex mutex;
  std::map<std::string, std::map<int, std::string>> values; ///< by key, rank
  std::optional<std::string> failure;
  std::map<int, std::function<void()>> interrupts;
  int nextInterrupt = 0;
  StopRound stop;
};

class ThreadPeers final : public Peers {
public:
  /// `meanwhile` is called while the rank waits for others.
  ThreadPeers(std::shared_ptr<ThreadMeeting> meeting, int rank,
              std::chrono::milliseconds deadline,
              std::function<void()> meanwhile)
      : meeting(std::move(meeting)), place(rank), patience(deadline),
        meanwhile(std::move(meanwhile)) {}

  int rank() const override { return place; }
  int worldSize() const override { return meeting->worldSize; }
  std::chrono::milliseconds deadline() const override { return patience; }

  std::vector<std::string> gather(const std::string &key,
                                  const std::string &value,
                                  const std::vector<int> &ranks, ErrorId late,
                                  const std::string &what) override {
    std::vector<std::string> all;
    for (auto &each : await(key, value, ranks, patience)) {
      if (auto reason = failure())
        throw Error(ErrorId::PeerFailed, what + ": " + *reason);
      if (!each)
        throw Error(late, what);
      all.push_back(std::move(*each));
    }
    return all;
  }

  std::vector<std::optional<std::string>>
  survey(const std::string &key, const std::string &value,
         const std::vector<int> &ranks,
         std::chrono::milliseconds time) noexcept override {
    return await(key, value, ranks, time);
  }

  std::string publish(const std::string &reason) override {
    std::map<int, std::function<void()>> calls;
    std::unique_lock lock(meeting->mutex);
    if (!meeting->failure) {
      meeting->failure = reason;
      calls = std::exchange(meeting->interrupts, {});
    }
    std::string first = *meeting->failure;
    lock.unlock();
    for (const auto &[handle, call] : calls)
      call();
    return first;
  }
  std::optional<std::string> failure() override {
    std::lock_guard lock(meeting->mutex);
    return meeting->failure;
  }
  int add(std::function<void()> interrupt) override {
    std::unique_lock lock(meeting->mutex);
    if (!meeting->failure)
      meeting->interrupts[meeting->nextInterrupt] = std::move(interrupt);
    int handle = meeting->nextInterrupt++;
    lock.unlock();
    if (interrupt)
      interrupt();
    return handle;
  }
  void remove(int handle) override {
    std::lock_guard lock(meeting->mutex);
    meeting->interrupts.erase(handle);
  }

  void publishStop(uint64_t rounds) override { meeting->stop.set(rounds); }
  std::optional<uint64_t> stopAfter() const noexcept override {
    return meeting->stop.get();
  }

private:
  std::vector<std::optional<std::string>>
  await(const std::string &key, const std::string &value,
        const std::vector<int> &ranks, std::chrono::milliseconds time) {
    auto end = std::chrono::steady_clock::now() + time;
    {
      std::lock_guard lock(meeting->mutex);
      meeting->values[key][place] = value;
    }
    for (;;) {
      bool isOver = std::chrono::steady_clock::now() >= end;
      std::vector<std::optional<std::string>> all;
      {
        std::lock_guard lock(meeting->mutex);
        isOver |= meeting->failure.has_value();
        const std::map<int, std::string> &left = meeting->values[key];
        bool isWhole = true;
        for (int rank : ranks) {
          auto found = left.find(rank);
          isWhole &= found != left.end();
          all.push_back(found != left.end() ? std::optional(found->second)
                                            : std::nullopt);
        }
        if (isWhole || isOver)
          return all;
      }
      meanwhile();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  const std::shared_ptr<ThreadMeeting> meeting;
  const int place;
  const std::chrono::milliseconds patience;
  const std::function<void()> meanwhile;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_COMM_THREADPEERS_H
