//===- FusionText.cpp - What own kernels make, for people -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/FusionText.h"

#include "support/Format.h"
#include "support/Table.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace fsdp;
using nlohmann::ordered_json;

/// Kernels that are listed.
static constexpr size_t kMostKernels = 12;

std::string fsdp::printFusion(const Fusion &fusion) {
  const MovedBytes &before = fusion.before, &after = fusion.after;
  TextTable pairs, kernels;
  auto bytes = [](double amount) { return formatBytes(uint64_t(amount)); };
  pairs.add({"kernels of our own", "without", "with"});
  pairs.add({"step, ms", formatMilliseconds(before.seconds),
             formatMilliseconds(after.seconds)});
  for (size_t kind = 0; kind < kWorkKinds; ++kind)
    if (before.byKind[kind] != after.byKind[kind])
      pairs.add({std::string("  ") + getName(WorkKind(kind)) + ", ms",
                 formatMilliseconds(before.byKind[kind]),
                 formatMilliseconds(after.byKind[kind])});
  pairs.add({"calls that move bytes", formatCount(int64_t(before.calls)),
             formatCount(int64_t(after.calls))});
  pairs.add({"what these move", bytes(before.bytes), bytes(after.bytes)});
  pairs.add({"the least they could", bytes(fusion.leastBytes), ""});
  pairs.add({"planned memory", formatBytes(before.planned),
             formatBytes(after.planned)});
  kernels.add({"kernel of", "calls", "ms", "moves"});
  for (size_t i = 0; i < std::min(kMostKernels, fusion.kernels.size()); ++i) {
    const OwnKernel &kernel = fusion.kernels[i];
    kernels.add({kernel.name, formatCount(int64_t(kernel.calls)),
                 formatMilliseconds(kernel.seconds), bytes(kernel.bytes)});
  }
  return pairs.print() + "\n" + kernels.print();
}

static ordered_json describe(const MovedBytes &moved) {
  ordered_json json = {{"seconds", moved.seconds},
                       {"bytes", moved.bytes},
                       {"calls", moved.calls},
                       {"planned", moved.planned},
                       {"kernel_seconds", ordered_json::object()}};
  for (size_t kind = 1; kind < kWorkKinds; ++kind)
    json["kernel_seconds"][getName(WorkKind(kind))] = moved.byKind[kind];
  return json;
}

ordered_json fsdp::describeFusion(const Fusion &fusion) {
  ordered_json json = {{"without", describe(fusion.before)},
                       {"with", describe(fusion.after)},
                       {"least_bytes", fusion.leastBytes},
                       {"kernels", ordered_json::array()}};
  for (const OwnKernel &kernel : fusion.kernels)
    json["kernels"].push_back({{"name", kernel.name},
                               {"calls", kernel.calls},
                               {"seconds", kernel.seconds},
                               {"bytes", kernel.bytes}});
  return json;
}
