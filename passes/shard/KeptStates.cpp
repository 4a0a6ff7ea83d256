//===- KeptStates.cpp - States that an optimizer keeps --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/KeptStates.h"

#include "support/BlockCodes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fsdp;

FailureOr<KeptStates> KeptStatesDeclarer::declare(StateOp param,
                                                  ArrayRef<StringRef> moments,
                                                  StateDType dtype) {
  ArrayRef<StateOp> members = table.getMembers(param);
  FailureOr<MomentStorage> storage = getMomentStorage(param, members, dtype);
  if (failed(storage))
    return failure();
  KeptStates kept{{}, {}, *storage};
  for (StringRef moment : moments) {
    std::string name = (moment + storage->suffix).str();
    StateOp state = append(param, name, storage->element);
    kept.moments.push_back(state);
    // Members keep theirs by name, too.
    for (StateOp member : members)
      append(member, name, storage->element)
          .setPlacementAttr(getPart(state, member.getPart().getOffset()));
    if (storage->isCoded)
      kept.scales.push_back(appendScale(param, members, name, *storage));
  }
  return kept;
}

/// Exports of it are of the type that the parameter's are of.
static void beginAsOwner(StateOp average, StateOp owner) {
  Builder builder(average.getContext());
  average.setValueAttr(InitAttr::get(builder.getContext(), InitKind::Owner,
                                     builder.getDenseF64ArrayAttr({})));
  Type own = average.getGlobalType().getElementType();
  Type model = owner.getModelType().getElementType();
  if (own != model)
    average.setModelElementAttr(TypeAttr::get(model));
}

StateOp KeptStatesDeclarer::declareAverage(StateOp param, Type element) {
  constexpr StringLiteral name = "ema";
  StateOp average = append(param, name, element);
  ArrayRef<StateOp> members = table.getMembers(param);
  for (StateOp member : members) {
    StateOp part = append(member, name, element);
    part.setPlacementAttr(getPart(average, member.getPart().getOffset()));
    beginAsOwner(part, member);
  }
  if (members.empty())
    beginAsOwner(average, param);
  return average;
}

PartAttr KeptStatesDeclarer::getPart(StateOp flat, int64_t offset) {
  return PartAttr::get(module.getContext(), refTo(flat), offset);
}

StateOp KeptStatesDeclarer::append(StateOp of, StringRef name, Type element) {
  return appender.append(
      module.getLoc(), of.getSymName() + "/" + name, Role::Optimizer,
      RankedTensorType::get(of.getGlobalType().getShape(), element,
                            of.getGlobalType().getEncoding()),
      of, of.getPlacementAttr());
}

StateOp KeptStatesDeclarer::appendScale(StateOp of, const ScaleLayout &layout,
                                        StringRef name) {
  StateOp scale =
      appender.append(module.getLoc(), of.getSymName() + "/" + name,
                      Role::Optimizer, layout.type, of, layout.sharding);
  if (layout.split)
    scale.setSplitAttr(layout.split);
  else
    scale.removeSplitAttr();
  return scale;
}

StateOp KeptStatesDeclarer::appendScale(StateOp param,
                                        ArrayRef<StateOp> members,
                                        const std::string &moment,
                                        const MomentStorage &storage) {
  std::string name = moment + "_scale";
  if (storage.scales)
    return appendScale(param, *storage.scales, name);
  int64_t blocks = param.getGlobalType().getNumElements() / kBlockElements;
  auto type = RankedTensorType::get({blocks},
                                    Builder(module.getContext()).getF32Type());
  StateOp flat =
      appender.append(module.getLoc(), param.getSymName() + "/" + name,
                      Role::Optimizer, type, param, param.getPlacementAttr());
  for (StateOp member : members)
    appendScale(member, getScaleLayout(member, /*ignoresShards=*/true), name)
        .setPlacementAttr(
            getPart(flat, member.getPart().getOffset() / kBlockElements));
  return flat;
}
