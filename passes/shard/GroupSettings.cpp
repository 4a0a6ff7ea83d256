//===- GroupSettings.cpp - What groups of parameters go by ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/shard/GroupSettings.h"

using namespace mlir;
using namespace fsdp;

SmallVector<GroupSettings> fsdp::getGroupSettings(OptimizerAttr optimizer) {
  GroupSettings base{optimizer.getLr().getValueAsDouble(),
                     getFacts(optimizer.getKind()).getDefaults()};
  readNumbers(optimizer.getNumbers(), base.numbers);
  SmallVector<GroupSettings> all{base};
  for (auto group : getList<ParamGroupAttr>(optimizer.getGroups())) {
    GroupSettings &settings = all.emplace_back(base);
    if (group.getLr())
      settings.lr = group.getLr().getValueAsDouble();
    readNumbers(group.getNumbers(), settings.numbers);
  }
  return all;
}

LogicalResult fsdp::verifyGroups(ModuleOp module, size_t count) {
  bool isAssigned = count == 1;
  for (StateOp state : module.getOps<StateOp>()) {
    size_t group = state.getGroup().value_or(0);
    isAssigned |= group != 0;
    if (group >= count)
      return state.emitOpError("is in group ")
             << group << " of the optimizer, which has " << count - 1;
  }
  if (isAssigned)
    return success();
  return module.emitError("has groups of parameters, but no parameter is in "
                          "one; run fsdp-assign-groups first");
}
