//===- GroupSettings.h - What groups of parameters go by --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SHARD_GROUPSETTINGS_H
#define FSDP_PASSES_SHARD_GROUPSETTINGS_H

#include "ir/fsdp/Fsdp.h"

namespace fsdp {

/// What torch.optim keeps of a parameter group.
struct GroupSettings {
  double lr = 0;
  OptimizerNumbers numbers;

  bool operator==(const GroupSettings &) const = default;
};

/// Those of each group, first those that hold without one.
llvm::SmallVector<GroupSettings> getGroupSettings(OptimizerAttr optimizer);

/// Each group that a parameter is in must be one of the optimizer's `count`,
/// which are those that fsdp-assign-groups saw.
mlir::LogicalResult verifyGroups(mlir::ModuleOp module, size_t count);

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_GROUPSETTINGS_H
