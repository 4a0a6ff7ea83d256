//===- Counted.cpp - What went through a communicator ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/Counted.h"

#include "runtime/plan/DType.h"

using namespace fsdp;

Traffic &CountedCommunicator::count(const TransferLabel &label) {
  Traffic &traffic =
      counts[label.bucket == "metrics" ? label.bucket : label.collective];
  ++traffic.calls;
  return traffic;
}

Communicator::Ticket
CountedCommunicator::startAllGather(std::span<const GatherMember> members,
                                    const TransferLabel &label) {
  Traffic &traffic = count(label);
  for (const GatherMember &member : members)
    traffic.bytes += member.shardBytes * static_cast<uint64_t>(size());
  return inner->startAllGather(members, label);
}

Communicator::Ticket
CountedCommunicator::startReduceScatter(std::span<const ReduceMember> members,
                                        Combination combination,
                                        const TransferLabel &label) {
  Traffic &traffic = count(label);
  for (const ReduceMember &member : members)
    traffic.bytes += member.shardElements * dtypeBytes(member.dtype) *
                     static_cast<uint64_t>(size());
  return inner->startReduceScatter(members, combination, label);
}

Communicator::Ticket
CountedCommunicator::startAllReduce(std::span<const AllReduceMember> members,
                                    Combination combination,
                                    const TransferLabel &label) {
  Traffic &traffic = count(label);
  for (const AllReduceMember &member : members)
    traffic.bytes += member.elements * dtypeBytes(member.dtype);
  return inner->startAllReduce(members, combination, label);
}
