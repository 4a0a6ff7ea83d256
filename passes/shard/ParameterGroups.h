//===- ParameterGroups.h - Who is updated with which settings ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SHARD_PARAMETER_GROUPS_H
#define FSDP_PASSES_SHARD_PARAMETER_GROUPS_H

#include "ir/fsdp/Fsdp.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace fsdp {

/// What torch.optim keeps of a parameter group.
struct OptimizerSettings {
  double lr = 0;
  double beta1 = 0, beta2 = 0, eps = 0, weightDecay = 0;
  double momentum = 0;
  bool nesterov = false;

  bool operator==(const OptimizerSettings &) const = default;
};

/// Parameters by name. Group 0 is what no other one takes; of the others the
/// last that matches counts. A tied parameter is matched by any of its names.
class ParameterGroups {
public:
  /// `texts` are groups as "*.bias|*norm*:weight-decay=0;lr=1e-4": patterns of
  /// names, and what differs from `base`. Emits an error at `module` if one
  /// cannot be read, if a pattern matches no parameter of it, or if groups
  /// contradict each other about a tied one, unless `checkTied` is false.
  static mlir::FailureOr<ParameterGroups>
  parse(mlir::ModuleOp module, const OptimizerSettings &base,
        llvm::ArrayRef<std::string> texts, bool checkTied = true);

  /// Number of the parameter's group.
  unsigned lookup(StateOp parameter) const {
    return members.lookup(parameter.getSymNameAttr());
  }
  const OptimizerSettings &getSettings(unsigned group) const {
    return groups[group].settings;
  }
  size_t size() const { return groups.size(); }

private:
  struct Group {
    std::vector<std::string> patterns;
    OptimizerSettings settings;
  };

  mlir::LogicalResult parseGroup(mlir::ModuleOp module, llvm::StringRef text);
  mlir::LogicalResult checkPatterns(mlir::ModuleOp module) const;
  mlir::LogicalResult assign(StateOp parameter, bool checkTied);

  std::vector<Group> groups;
  llvm::DenseMap<mlir::StringAttr, unsigned> members;
};

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_PARAMETER_GROUPS_H
