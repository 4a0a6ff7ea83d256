//===- MemoryUse.cpp - Bytes of a rank, by kind ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/plan/MemoryUse.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/Targets.h"

using namespace mlir;
using namespace fsdp;

static SmallVector<NamedAttribute> describe(Builder &builder,
                                            const SpaceUse &use) {
  auto entry = [&](StringRef name, int64_t bytes) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(bytes));
  };
  return {
      entry("peak", use.peak),
      entry("states", use.states),
      entry("params", use.params),
      entry("optimizer", use.optimizer),
      entry("buffers", use.buffers),
      entry("inputs", use.transient.inputs),
      entry("activations", use.transient.activations),
      entry("gathered", use.transient.gathered),
      entry("grads", use.transient.grads),
  };
}

DictionaryAttr MemoryUse::toAttribute(MLIRContext *context) const {
  Builder builder(context);
  SmallVector<NamedAttribute> entries = describe(builder, *this);
  if (scratchBound)
    entries.push_back(builder.getNamedAttr(
        "scratch_bound", builder.getI64IntegerAttr(*scratchBound)));
  if (!scratchUnknown.empty())
    entries.push_back(builder.getNamedAttr(
        "scratch_unknown", getTextsAttr(context, scratchUnknown)));
  if (host)
    entries.push_back(builder.getNamedAttr(
        "host", builder.getDictionaryAttr(describe(builder, *host))));
  return builder.getDictionaryAttr(entries);
}

namespace {
/// Reads entries, and remembers whether all were there.
struct EntryReader {
  DictionaryAttr dictionary;
  bool isWhole = true;

  int64_t operator()(StringRef name) {
    auto bytes = dictionary.getAs<IntegerAttr>(name);
    isWhole &= bool(bytes);
    return bytes ? bytes.getInt() : 0;
  }
  void read(SpaceUse &use) {
    use.peak = (*this)("peak");
    use.states = (*this)("states");
    use.params = (*this)("params");
    use.optimizer = (*this)("optimizer");
    use.buffers = (*this)("buffers");
    use.transient.inputs = (*this)("inputs");
    use.transient.activations = (*this)("activations");
    use.transient.gathered = (*this)("gathered");
    use.transient.grads = (*this)("grads");
  }
};
} // namespace

FailureOr<MemoryUse> MemoryUse::fromAttribute(ModuleOp module) {
  auto dictionary = module->getAttrOfType<DictionaryAttr>(kMemoryAttr);
  if (!dictionary)
    return failure();
  MemoryUse use;
  EntryReader device{dictionary};
  device.read(use);
  if (getTarget(module).kernels == KernelTable::Host ||
      dictionary.contains("scratch_bound"))
    use.scratchBound = device("scratch_bound");
  for (StringRef name :
       getTexts(dictionary.getAs<ArrayAttr>("scratch_unknown")))
    use.scratchUnknown.push_back(name.str());
  EntryReader host{dictionary.getAs<DictionaryAttr>("host")};
  if (host.dictionary)
    host.read(use.host.emplace());
  if (!device.isWhole || !host.isWhole)
    return failure();
  return use;
}

SpaceUse fsdp::getStatesUse(ModuleOp module, MemorySpace memory) {
  SpaceUse use;
  for (auto state : module.getOps<StateOp>()) {
    if (state.getPart())
      continue; // counted with the flat state
    if (state.isOnHost() != (memory == MemorySpace::Host))
      continue;
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
