//===- Forwarding.h - What stands in front of a communicator ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_FORWARDING_H
#define FSDP_RUNTIME_COMM_FORWARDING_H

#include "runtime/comm/Communicator.h"

#include <utility>

namespace fsdp {

/// Passes everything on to another communicator; who stands in front of one
/// overrides what it looks at.
class ForwardingCommunicator : public Communicator {
public:
  explicit ForwardingCommunicator(std::unique_ptr<Communicator> inner)
      : inner(std::move(inner)) {}

  int rank() const override { return inner->rank(); }
  int size() const override { return inner->size(); }
  void rehearse(const Transfer &transfer) override {
    inner->rehearse(transfer);
  }
  Ticket start(const Transfer &transfer) override {
    return inner->start(transfer);
  }
  void wait(Ticket ticket) override { inner->wait(ticket); }
  void abandon() override { inner->abandon(); }
  uint64_t keepCaptured() override { return inner->keepCaptured(); }
  void launchCaptured(uint64_t graph, uint64_t step) override {
    inner->launchCaptured(graph, step);
  }
  size_t stagingBytes() const override { return inner->stagingBytes(); }

private:
  const std::unique_ptr<Communicator> inner;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_FORWARDING_H
