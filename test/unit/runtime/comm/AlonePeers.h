//===- AlonePeers.h - Peers that are only said to be there ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_COMM_ALONEPEERS_H
#define FSDP_TEST_UNIT_RUNTIME_COMM_ALONEPEERS_H

#include "runtime/comm/Peers.h"
#include "runtime/comm/StopRound.h"

#include <algorithm>
#include <mutex>

namespace fsdp::test {

/// One process plays one rank of any number. Others leave what this one leaves,
/// but have places of their own.
class AlonePeers final : public Peers {
public:
  AlonePeers(int rank, int worldSize,
             std::chrono::milliseconds deadline = std::chrono::seconds(20))
      : place(rank), world(worldSize), patience(deadline) {}

  int rank() const override { return place; }
  int worldSize() const override { return world; }
  std::chrono::milliseconds deadline() const override { return patience; }

  std::vector<std::string> gather(const std::string &key,
                                  const std::string &value,
                                  const std::vector<int> &ranks, ErrorId,
                                  const std::string &) override {
    if (auto reason = failure())
      throw Error(ErrorId::PeerFailed, *reason);
    std::vector<std::string> values(ranks.size(), value);
    if (key.ends_with("come/")) // the id that the first rank made
      values[0] = std::string(128, 'i');
    if (key.starts_with("exchange/device"))
      for (int rank : ranks)
        values[rank] += devicesAreShared ? "" : "#" + std::to_string(rank);
    return values;
  }

  std::vector<std::optional<std::string>>
  survey(const std::string &key, const std::string &value,
         const std::vector<int> &ranks,
         std::chrono::milliseconds) noexcept override {
    {
      std::lock_guard lock(mutex);
      surveys.emplace_back(key, value);
    }
    std::vector<std::optional<std::string>> values;
    for (int rank : ranks)
      values.push_back(std::ranges::count(absent, rank) ? std::nullopt
                                                        : std::optional(value));
    return values;
  }

  std::string publish(const std::string &reason) override {
    std::lock_guard lock(mutex);
    if (!published)
      published = reason;
    return *published;
  }
  std::optional<std::string> failure() override {
    std::lock_guard lock(mutex);
    return published;
  }
  int add(std::function<void()> interrupt) override {
    std::lock_guard lock(mutex);
    onFailure = std::move(interrupt);
    return 0;
  }
  void remove(int) override {
    std::lock_guard lock(mutex);
    onFailure = nullptr;
  }

  void publishStop(uint64_t rounds) override { stop.set(rounds); }
  std::optional<uint64_t> stopAfter() const noexcept override {
    return stop.get();
  }

  /// Another rank fails.
  void failElsewhere(const std::string &reason) {
    publish(reason);
    std::lock_guard lock(mutex);
    if (onFailure)
      onFailure();
  }

  /// What this rank left in surveys whose key ends so.
  std::vector<std::string> left(std::string_view suffix) {
    std::lock_guard lock(mutex);
    std::vector<std::string> values;
    for (const auto &[key, value] : surveys)
      if (key.ends_with(suffix))
        values.push_back(value);
    return values;
  }

  bool devicesAreShared = false;
  std::vector<int> absent; ///< those that do not answer a survey

private:
  StopRound stop;
  const int place, world;
  const std::chrono::milliseconds patience;
  std::mutex mutex;
  std::optional<std::string> published;
  std::vector<std::pair<std::string, std::string>> surveys;
  std::function<void()> onFailure;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_COMM_ALONEPEERS_H
