//===- ParameterNorms.h - Norms by parameter or module ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What `#fsdp.reported_norms` asks for. Each rank has the sum of squares of its
// own elements, divided by how many ranks of a replica hold them; the sums of
// all parameters or modules travel in one vector, as GradientNorm.h says of the
// sum over all.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_SHARD_PARAMETERNORMS_H
#define FSDP_PASSES_SHARD_PARAMETERNORMS_H

#include "passes/shard/GradientNorm.h"
#include "passes/shard/Updates.h"

namespace fsdp {

/// "layers.0" of "layers.0.attention.weight": of a stack of layers the layer,
/// else the module that has the parameter.
std::string getNormModule(llvm::StringRef parameter);

/// The norms of one program, in the order: trained parameters are told before
/// they are updated, their new values afterwards, and at the end of the step
/// everything is reduced.
class ParameterNorms {
public:
  /// `getHolders`: how many ranks of a replica hold each element of a state.
  ParameterNorms(mlir::OpBuilder &builder, mlir::Location loc,
                 ReportedNormsAttr asked,
                 llvm::function_ref<int64_t(StateOp)> getHolders,
                 llvm::ArrayRef<Trained *> trained);

  /// Emits an error if one of them is no single parameter.
  static mlir::LogicalResult verify(const StateTable &states,
                                    llvm::ArrayRef<Trained> trained);

  /// Before `members` are updated. Norms of order 2 of gradients may be known.
  void note(llvm::ArrayRef<Trained *> members, const GradientNorms &known);
  void noteUpdates(llvm::ArrayRef<std::pair<StateOp, mlir::Value>> newValues);

  /// A vector of norms, and their names.
  struct Result {
    mlir::Value norms;
    mlir::ArrayAttr names;
  };
  /// `ranks` are those of a replica. `factors`: what gradients still have to be
  /// divided by, numbers or tensors.
  llvm::SmallVector<Result> finish(GroupAttr world, int64_t ranks,
                                   double divisor, mlir::ValueRange factors);

private:
  enum Kind { Gradient, Weight, Update, NumKinds };
  bool isAsked(int kind) const;
  mlir::Value toWide(mlir::Value value);
  mlir::Value makeOwn(mlir::Value value);
  mlir::Value buildSums(int64_t ranks);
  mlir::Value joinGroups(mlir::Value squares, int64_t kinds);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  ReportedNormsAttr asked;
  struct Group {
    std::string name;
    llvm::SmallVector<unsigned> members;
  };
  llvm::SmallVector<Group> groups;
  llvm::SmallVector<int64_t> holders;             // by member
  llvm::DenseMap<mlir::Operation *, unsigned> of; // members of states
  llvm::SmallVector<mlir::Value> norms[NumKinds]; // by member
  llvm::SmallVector<mlir::Value> old;             // by member
};

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_PARAMETERNORMS_H
