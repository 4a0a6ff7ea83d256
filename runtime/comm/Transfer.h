//===- Transfer.h - What a rank moves in one collective ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_TRANSFER_H
#define FSDP_RUNTIME_COMM_TRANSFER_H

#include "plan/DType.h"
#include "plan/Traffic.h"
#include "plan/plan_generated.h"
#include "runtime/comm/Reduce.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace fsdp {

/// One tensor of a collective, as one rank has it. `elements` are those of one
/// rank's part of it (Traffic.h). By kind:
///
///   all_gather      `from` this rank's part, `to` those of all ranks, by rank
///   reduce_scatter  `from` a part for each rank, `to` this rank's, combined in
///                   rank order; its elements may be wider (`canWiden`)
///   all_reduce      `to` is `from`, where ranks' are combined, in rank order
///   rotate          `to` gets the previous rank's `from`, the first rank's the
///                   last one's; the two do not overlap
///   all_to_all      `from` a part for each rank, `to` one of each rank, by
///                   rank; the two do not overlap
struct Member {
  const void *from;
  void *to;
  size_t elements;
  plan::DType dtype = plan::DType::u8; ///< of what travels
  plan::DType result = dtype;          ///< of what is left

  /// Of one rank's part, as it travels.
  size_t bytes() const { return elements * dtypeBytes(dtype); }
};

/// What a transfer is called and is for. Text lives as long as the plan.
struct TransferLabel {
  CollectiveKind kind = CollectiveKind::all_gather;
  std::string_view bucket;
  uint64_t step = 0;
  /// Which of the plan's programs starts it, by which instruction; -1: none.
  int32_t program = -1, instruction = -1;
  plan::Purpose purpose = plan::Purpose::step;
};

/// What is started. The members are read before the start returns.
struct Transfer {
  TransferLabel label;
  std::span<const Member> members;
  Combination combination = plan::Reduction::sum; ///< of a reduction

  CollectiveKind kind() const { return label.kind; }
  const CollectiveFacts &facts() const { return getFacts(label.kind); }
};

/// Members that outlive their start.
using Members = std::vector<Member>;
inline Members keep(std::span<const Member> members) {
  return {members.begin(), members.end()};
}

/// Bytes that the rank moves (Traffic.h) among `ranks` ranks.
uint64_t getTraffic(const Transfer &transfer, uint64_t ranks);

/// Whether ranks brought the same amounts of the same types.
bool haveSameShape(std::span<const Member> one, std::span<const Member> other);

/// Throws fsdp::Error (ReductionUnsupported) as `checkReduction` does.
void checkReductions(const Transfer &transfer);

/// Throws it if sums are wider than what travels, or have an order, for back
/// ends that sum while they move.
void refuseWiderSums(const Transfer &transfer);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_TRANSFER_H
