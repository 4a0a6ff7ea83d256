//===- Transfer.cpp - What a rank moves in one collective -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/Transfer.h"

#include "support/Error.h"

#include <string>

using namespace fsdp;

KeptMembers fsdp::keep(const TransferMembers &members) {
  return std::visit(
      [](auto span) {
        return KeptMembers(std::vector(span.begin(), span.end()));
      },
      members);
}

std::vector<std::pair<size_t, int>> fsdp::shapeOf(const KeptMembers &members) {
  std::vector<std::pair<size_t, int>> shape;
  std::visit(Overloaded{[&](const std::vector<GatherMember> &all) {
                          for (const GatherMember &member : all)
                            shape.emplace_back(member.shardBytes, 0);
                        },
                        [&](const std::vector<ReduceMember> &all) {
                          for (const ReduceMember &member : all)
                            shape.emplace_back(
                                member.shardElements,
                                static_cast<int>(member.dtype) |
                                    static_cast<int>(member.result) << 8);
                        },
                        [&](const std::vector<AllReduceMember> &all) {
                          for (const AllReduceMember &member : all)
                            shape.emplace_back(member.elements,
                                               static_cast<int>(member.dtype));
                        },
                        [&](const std::vector<RotateMember> &all) {
                          for (const RotateMember &member : all)
                            shape.emplace_back(member.bytes, 0);
                        }},
             members);
  return shape;
}

void fsdp::checkReductions(const Transfer &transfer) {
  plan::Reduction reduction = transfer.combination.reduction;
  std::visit(
      Overloaded{[](std::span<const GatherMember>) {},
                 [&](std::span<const ReduceMember> members) {
                   for (const ReduceMember &member : members)
                     checkReduction(member.dtype, reduction, member.result);
                 },
                 [&](std::span<const AllReduceMember> members) {
                   for (const AllReduceMember &member : members)
                     checkReduction(member.dtype, reduction, member.dtype);
                 },
                 [](std::span<const RotateMember>) {}},
      transfer.members);
}

void fsdp::refuseWiderSums(const Transfer &transfer) {
  if (transfer.combination.reduction == plan::Reduction::tree)
    throw Error(ErrorId::ReductionUnsupported,
                "expected sums in any order, found sums of grains, which have "
                "one; leave fsdp_config.grains out on a GPU");
  const auto *members =
      std::get_if<std::span<const ReduceMember>>(&transfer.members);
  if (!members)
    return;
  for (const ReduceMember &member : *members)
    if (member.dtype != member.result)
      throw Error(ErrorId::ReductionUnsupported,
                  "expected sums in the type that travels, " +
                      std::string(dtypeName(member.dtype)) + ", found " +
                      std::string(dtypeName(member.result)) +
                      "; leave fsdp_config.reduce_wire_dtype out on a GPU");
}
