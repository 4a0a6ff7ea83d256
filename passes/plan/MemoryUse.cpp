//===- MemoryUse.cpp - Bytes of a rank, by kind ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/plan/MemoryUse.h"

#include "ir/aten/Aten.h"

using namespace mlir;
using namespace fsdp;

DictionaryAttr MemoryUse::toAttribute(MLIRContext *context) const {
  Builder builder(context);
  auto entry = [&](StringRef name, int64_t bytes) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(bytes));
  };
  SmallVector<NamedAttribute> entries = {
      entry("peak", peak),
      entry("states", states),
      entry("params", params),
      entry("optimizer", optimizer),
      entry("buffers", buffers),
      entry("inputs", transient.inputs),
      entry("activations", transient.activations),
      entry("gathered", transient.gathered),
      entry("grads", transient.grads),
  };
  if (scratchBound)
    entries.push_back(entry("scratch_bound", *scratchBound));
  return builder.getDictionaryAttr(entries);
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
  if (getDevice(module) == "cpu")
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
    case Role::Step:
    case Role::LearningRate:
    case Role::LossScale:
    case Role::LossGrowth:
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
