//===- LiveBytes.cpp - Bytes in use over a program ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/LiveBytes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;
using namespace fsdp;

static int64_t &getPart(TransientUse &use, StorageKind kind) {
  switch (kind) {
  case StorageKind::Input:
    return use.inputs;
  case StorageKind::Gathered:
    return use.gathered;
  case StorageKind::Gradient:
    return use.grads;
  case StorageKind::Activation:
    return use.activations;
  case StorageKind::State:
    break;
  }
  llvm_unreachable("states are not transient");
}

SmallVector<LivePoint>
fsdp::getLiveCurve(const Liveness &liveness,
                   llvm::function_ref<int64_t(int64_t)> round,
                   MemorySpace memory) {
  struct Change {
    int64_t time, bytes;
    StorageKind kind;
  };
  SmallVector<Change, 0> changes;
  for (auto [index, storage] : llvm::enumerate(liveness.getStorages())) {
    if (storage.kind == StorageKind::State || storage.memory != memory ||
        liveness.isMerged(index))
      continue;
    int64_t bytes = round ? round(storage.bytes) : storage.bytes;
    changes.push_back({storage.first, bytes, storage.kind});
    changes.push_back({storage.last + 1, -bytes, storage.kind});
  }
  llvm::stable_sort(changes, [](const Change &a, const Change &b) {
    return a.time < b.time;
  });
  SmallVector<LivePoint> curve;
  LivePoint now;
  for (const Change &change : changes) {
    if (curve.empty() || curve.back().time != change.time)
      curve.push_back({change.time, now.use});
    getPart(now.use, change.kind) += change.bytes;
    curve.back().use = now.use;
  }
  return curve;
}

LivePoint fsdp::getPeak(ArrayRef<LivePoint> curve, int64_t begin, int64_t end) {
  LivePoint highest{begin, {}};
  for (const LivePoint &point : curve) {
    if (point.time >= end)
      break;
    // What was there at the beginning counts.
    if (point.time <= begin)
      highest.use = point.use;
    else if (point.use.total() > highest.use.total())
      highest = point;
  }
  return highest;
}
