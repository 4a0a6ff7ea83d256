//===- Label.cpp - How errors name a transfer -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/Label.h"

using namespace fsdp;

std::string fsdp::describe(int rank, const TransferLabel &label) {
  return "rank " + std::to_string(rank) + ": " +
         std::string(getName(label.kind)) + " of bucket '" +
         std::string(label.bucket) + "' in step " + std::to_string(label.step);
}

std::string fsdp::describeRanks(std::span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

std::string fsdp::describe(std::chrono::milliseconds time) {
  auto tenths = (time.count() + 50) / 100;
  std::string text = std::to_string(tenths / 10);
  if (tenths % 10)
    text += "." + std::to_string(tenths % 10);
  return text + " s";
}
