//===- Counted.cpp - What went through a communicator ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/Counted.h"

using namespace fsdp;

Communicator::Ticket CountedCommunicator::start(const Transfer &transfer) {
  const TransferLabel &label = transfer.label;
  Traffic &traffic =
      counts[label.purpose == plan::Purpose::metric ? "metrics"
                                                    : getName(label.kind)];
  ++traffic.calls;
  traffic.bytes += getTraffic(transfer, static_cast<uint64_t>(size()));
  return ForwardingCommunicator::start(transfer);
}

void CountedCommunicator::wait(Ticket ticket) {
  auto begin = std::chrono::steady_clock::now();
  ForwardingCommunicator::wait(ticket);
  inWaits += std::chrono::steady_clock::now() - begin;
}
