//===- Transfer.cpp - What a rank moves in one collective -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/Transfer.h"

#include <type_traits>

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
                            shape.emplace_back(member.shardElements,
                                               static_cast<int>(member.dtype));
                        },
                        [&](const std::vector<AllReduceMember> &all) {
                          for (const AllReduceMember &member : all)
                            shape.emplace_back(member.elements,
                                               static_cast<int>(member.dtype));
                        }},
             members);
  return shape;
}

void fsdp::checkReductions(const Transfer &transfer) {
  std::visit(
      [&](auto members) {
        if constexpr (!std::is_same_v<decltype(members),
                                      std::span<const GatherMember>>)
          for (const auto &member : members)
            checkReduction(member.dtype, transfer.combination.reduction);
      },
      transfer.members);
}
