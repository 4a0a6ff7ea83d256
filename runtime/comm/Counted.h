//===- Counted.h - What went through a communicator -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_COUNTED_H
#define FSDP_RUNTIME_COMM_COUNTED_H

#include "runtime/comm/Forwarding.h"

#include <chrono>
#include <map>

namespace fsdp {

/// Calls and bytes (plan/Traffic.h) of one kind of collective.
struct Traffic {
  uint64_t calls = 0, bytes = 0;
};

/// Counts what goes to another communicator.
class CountedCommunicator final : public ForwardingCommunicator {
public:
  using ForwardingCommunicator::ForwardingCommunicator;

  /// By collective ("all_gather") since the last reset. Those of metrics count
  /// as "metrics".
  const std::map<std::string_view, Traffic> &traffic() const { return counts; }
  void reset() {
    counts.clear();
    inWaits = {};
  }
  /// How long waits held the caller since the last reset. Of a device's streams
  /// they do not: it is nothing there.
  std::chrono::duration<double> waited() const { return inWaits; }
  void set(std::map<std::string_view, Traffic> traffic) {
    counts = std::move(traffic);
  }

  Ticket start(const Transfer &transfer) override;
  void wait(Ticket ticket) override;

private:
  std::map<std::string_view, Traffic> counts;
  std::chrono::duration<double> inWaits{};
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_COUNTED_H
