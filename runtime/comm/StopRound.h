//===- StopRound.h - The round that a run ends after ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_STOPROUND_H
#define FSDP_RUNTIME_COMM_STOPROUND_H

#include <atomic>
#include <cstdint>
#include <optional>

namespace fsdp {

/// Where ranks meet in a store: this key and its number is set by each rank
/// that has heard of the round to stop after.
inline constexpr const char *kStopHeard = "stop/heard/";

/// What Fabric::stopAfter says; may be set and read by several threads.
class StopRound {
public:
  std::optional<uint64_t> get() const noexcept {
    uint64_t rounds = value.load(std::memory_order_acquire);
    return rounds == kNone ? std::nullopt : std::optional(rounds);
  }
  /// The first to call it decides.
  void set(uint64_t rounds) noexcept {
    uint64_t none = kNone;
    value.compare_exchange_strong(none, rounds, std::memory_order_acq_rel);
  }

private:
  static constexpr uint64_t kNone = UINT64_MAX;
  std::atomic<uint64_t> value{kNone};
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_STOPROUND_H
