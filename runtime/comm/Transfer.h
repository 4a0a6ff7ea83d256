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
#include <variant>
#include <vector>

namespace fsdp {

/// One member of an all-gather: rank r's `shardBytes` land at `full + r *
/// shardBytes`. `full` has room for size() * shardBytes bytes.
struct GatherMember {
  const void *shard;
  void *full;
  size_t shardBytes;
};

/// One member of a reduce-scatter: `full` holds size() * shardElements
/// elements; those from rank() * shardElements on are combined over the ranks,
/// in rank order, into `shard`, whose elements may be wider (`canWiden`).
struct ReduceMember {
  const void *full;
  void *shard;
  size_t shardElements;
  plan::DType dtype;          ///< of what travels
  plan::DType result = dtype; ///< of what it is summed to
};

/// One member of an all-reduce, combined in place, in rank order.
struct AllReduceMember {
  void *data;
  size_t elements;
  plan::DType dtype;
};

/// One member of a rotation: `bytes` of each rank come to the next one, the
/// last rank's to the first. Source and place do not overlap.
struct RotateMember {
  const void *from;
  void *to;
  size_t bytes;
};

/// What an error says about a transfer. The text lives as long as the plan.
struct TransferLabel {
  std::string_view collective; ///< "all_gather"
  std::string_view bucket;
  uint64_t step = 0;
  /// Which of the plan's programs starts it, by which instruction; -1: none.
  int32_t program = -1, instruction = -1;
};

/// The members say which collective it is.
using TransferMembers =
    std::variant<std::span<const GatherMember>, std::span<const ReduceMember>,
                 std::span<const AllReduceMember>,
                 std::span<const RotateMember>>;

/// Which that is: the variants of members have the enumerators' order.
template <typename... Members>
CollectiveKind getCollectiveKind(const std::variant<Members...> &members) {
  return static_cast<CollectiveKind>(members.index());
}

/// Bytes that the collective takes from, or leaves with, one rank alone.
inline uint64_t getMemberBytes(const GatherMember &member) {
  return member.shardBytes;
}
inline uint64_t getMemberBytes(const ReduceMember &member) {
  return member.shardElements * dtypeBytes(member.dtype);
}
inline uint64_t getMemberBytes(const AllReduceMember &member) {
  return member.elements * dtypeBytes(member.dtype);
}
inline uint64_t getMemberBytes(const RotateMember &member) {
  return member.bytes;
}

/// What is started. The members are read before the start returns.
struct Transfer {
  TransferMembers members;
  Combination combination; ///< of a reduction
  TransferLabel label;
};

/// Members that outlive their start.
using KeptMembers =
    std::variant<std::vector<GatherMember>, std::vector<ReduceMember>,
                 std::vector<AllReduceMember>, std::vector<RotateMember>>;
KeptMembers keep(const TransferMembers &members);

/// What the ranks of a group must agree on beside the collective: amounts
/// (bytes of what is only moved, else elements) and types (0: any).
std::vector<std::pair<size_t, int>> shapeOf(const KeptMembers &members);

/// Throws fsdp::Error (ReductionUnsupported) as `checkReduction` does.
void checkReductions(const Transfer &transfer);

/// Throws it if sums are wider than what travels, or have an order, for back
/// ends that sum while they move.
void refuseWiderSums(const Transfer &transfer);

/// A visitor of a variant, by kind.
template <typename... Each>
struct Overloaded : Each... {
  using Each::operator()...;
};
template <typename... Each>
Overloaded(Each...) -> Overloaded<Each...>;

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_TRANSFER_H
