//===- Transfer.cpp - What a rank moves in one collective -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/Transfer.h"

#include "support/Error.h"

#include <algorithm>
#include <string>

using namespace fsdp;

uint64_t fsdp::getTraffic(const Transfer &transfer, uint64_t ranks) {
  uint64_t bytes = 0;
  for (const Member &member : transfer.members)
    bytes += getTraffic(transfer.kind(), member.bytes(), ranks);
  return bytes;
}

bool fsdp::haveSameShape(std::span<const Member> one,
                         std::span<const Member> other) {
  return std::ranges::equal(one, other, [](const Member &a, const Member &b) {
    return a.elements == b.elements && a.dtype == b.dtype &&
           a.result == b.result;
  });
}

void fsdp::checkReductions(const Transfer &transfer) {
  if (transfer.facts().reduces)
    for (const Member &member : transfer.members)
      checkReduction(member.dtype, transfer.combination.reduction,
                     member.result);
}

void fsdp::refuseWiderSums(const Transfer &transfer) {
  if (transfer.combination.reduction == plan::Reduction::tree)
    throw Error(ErrorId::ReductionUnsupported,
                "expected sums in any order, found sums of grains, which have "
                "one; leave fsdp_config.grains out on a GPU");
  for (const Member &member : transfer.members)
    if (member.dtype != member.result)
      throw Error(ErrorId::ReductionUnsupported,
                  "expected sums in the type that travels, " +
                      std::string(dtypeName(member.dtype)) + ", found " +
                      std::string(dtypeName(member.result)) +
                      "; leave fsdp_config.reduce_wire_dtype out on a GPU");
}
