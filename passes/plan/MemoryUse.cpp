//===- MemoryUse.cpp - Bytes of a rank, by kind ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/plan/MemoryUse.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/ForwardSlice.h"
#include "passes/analysis/Optimizers.h"
#include "passes/analysis/Programs.h"

using namespace mlir;
using namespace fsdp;

DictionaryAttr MemoryUse::toAttribute(MLIRContext *context) const {
  Builder builder(context);
  auto entry = [&](StringRef name, int64_t bytes) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(bytes));
  };
  return builder.getDictionaryAttr({
      entry("peak", peak),
      entry("states", states),
      entry("params", params),
      entry("optimizer", optimizer),
      entry("buffers", buffers),
      entry("inputs", transient.inputs),
      entry("activations", transient.activations),
      entry("gathered", transient.gathered),
      entry("grads", transient.grads),
      entry("scratch_bound", scratchBound),
  });
}

FailureOr<MemoryUse> MemoryUse::fromAttribute(ModuleOp module) {
  auto dictionary = module->getAttrOfType<DictionaryAttr>(kMemoryAttr);
  if (!dictionary)
    return failure();
  bool whole = true;
  auto entry = [&](StringRef name) -> int64_t {
    auto bytes = dictionary.getAs<IntegerAttr>(name);
    whole &= bool(bytes);
    return bytes ? bytes.getInt() : 0;
  };
  MemoryUse use;
  use.peak = entry("peak");
  use.states = entry("states");
  use.params = entry("params");
  use.optimizer = entry("optimizer");
  use.buffers = entry("buffers");
  use.transient = {entry("inputs"), entry("activations"), entry("gathered"),
                   entry("grads")};
  use.scratchBound = entry("scratch_bound");
  if (!whole)
    return failure();
  return use;
}

MemoryUse fsdp::getStatesUse(ModuleOp module) {
  MemoryUse use;
  for (auto state : module.getOps<StateOp>()) {
    if (state.getPart())
      continue; // counted with the flat state
    int64_t bytes = aten::getStorageBytes(state.getLocalType());
    switch (state.getRole()) {
    case Role::Parameter:
    case Role::Frozen:
      use.params += bytes;
      break;
    case Role::Optimizer:
    case Role::Scalar:
      use.optimizer += bytes;
      break;
    case Role::Buffer:
    case Role::Constant:
    case Role::Random:
      use.buffers += bytes;
      break;
    case Role::Gradient:
    case Role::Gathered:
      break; // counted with the transient tensors of their kind
    }
  }
  return use;
}

TransientUse fsdp::getPeakUse(const Liveness &liveness, int64_t begin,
                              int64_t end) {
  // Changes of each kind by time; a storage counts through its last position.
  struct Change {
    int64_t time, bytes;
    StorageKind kind;
  };
  SmallVector<Change> changes;
  for (auto [index, storage] : llvm::enumerate(liveness.getStorages())) {
    if (storage.kind == StorageKind::State || liveness.isMerged(index))
      continue;
    changes.push_back({storage.first, storage.bytes, storage.kind});
    changes.push_back({storage.last + 1, -storage.bytes, storage.kind});
  }
  llvm::sort(changes, [](const Change &a, const Change &b) {
    return a.time != b.time ? a.time < b.time : a.bytes < b.bytes;
  });
  TransientUse now, highest;
  for (const Change &change : changes) {
    switch (change.kind) {
    case StorageKind::Input:
      now.inputs += change.bytes;
      break;
    case StorageKind::Activation:
      now.activations += change.bytes;
      break;
    case StorageKind::Gathered:
      now.gathered += change.bytes;
      break;
    case StorageKind::Gradient:
      now.grads += change.bytes;
      break;
    case StorageKind::State:
      break;
    }
    // What was there at the beginning counts, what goes at once does not.
    bool isInside = change.time < end && (change.time > begin || begin < 0);
    if (change.time <= begin)
      highest = now;
    else if (isInside && now.total() > highest.total())
      highest = now;
  }
  return highest;
}

SmallVector<PhaseUse, 3> fsdp::getPhaseUses(func::FuncOp program) {
  Operation *last = ForwardSlice(program).getLast();
  int64_t count = 0, backward = 0, optimizer = -1;
  for (Operation &op : program.getBody().front()) {
    if (optimizer < 0 && getOptimizerUpdate(&op))
      optimizer = count;
    ++count;
    if (&op == last)
      backward = count;
  }
  Liveness liveness(program);
  if (optimizer < 0 || isInference(program))
    return {{"forward", getPeakUse(liveness)}};
  return {{"forward", getPeakUse(liveness, -1, backward)},
          {"backward", getPeakUse(liveness, backward, optimizer)},
          {"optimizer", getPeakUse(liveness, optimizer)}};
}
