//===- Fake.h - Any number of ranks without data ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For dry runs: one rank plays its part as if the others were there and had
// the same data. All-gathers repeat the own shard; a sum is its own part times
// the number of ranks, so that results stay finite and the same every time. It
// holds as much staging memory as a rank that is a process (Gloo.h).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_FAKE_FAKE_H
#define FSDP_RUNTIME_COMM_FAKE_FAKE_H

#include "runtime/comm/Communicator.h"

#include <memory>

namespace fsdp {

class FakeFabric final : public Fabric {
public:
  FakeFabric(int rank, int worldSize);

  std::unique_ptr<Communicator>
  createCommunicator(const GroupRanks &group) override;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_FAKE_FAKE_H
