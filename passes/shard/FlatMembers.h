//===- FlatMembers.h - What may lie in one flat state -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SHARD_FLATMEMBERS_H
#define FSDP_PASSES_SHARD_FLATMEMBERS_H

#include "passes/analysis/States.h"

#include <optional>
#include <string>

namespace fsdp {

/// A gather of a parameter, with the casts and replays in front of it, in
/// order; also those of a gather of which parts were kept for it.
struct GatherUse {
  AllGatherOp gather;
  llvm::SmallVector<mlir::Operation *, 2> chain;
  std::string lifeKey; ///< equal for gathers that can be one
};

/// The reduction of a parameter's gradient, and what stands between it and the
/// result that it is.
struct GradientUse {
  ReduceScatterOp scatter;
  llvm::SmallVector<mlir::Operation *, 2> tail;
  unsigned result;
};

struct ParameterUse {
  mlir::BlockArgument argument;
  llvm::SmallVector<GatherUse, 2> gathers; ///< in the program's order
  std::optional<GradientUse> gradient;
  std::string key;   ///< equal for parameters that can be members of one
  std::string lives; ///< equal for parameters that are gathered as often
  /// Equal for parameters of a bucket between whose gradients no other bucket's
  /// is computed.
  unsigned phase = 0;
  std::string problem; ///< why it can be no member; empty if it can
};

/// How a program uses the sharded parameters that it has as arguments.
class ProgramUses {
public:
  ProgramUses(mlir::func::FuncOp func, const StateTable &states);

  /// Null if the program does not have it.
  const ParameterUse *lookup(StateOp state) const;

  /// Position in the program as it was read.
  unsigned getPosition(mlir::Operation *op) const { return positions.at(op); }

  /// Bytes of the smallest element type in which one of `members` is kept,
  /// gathered or reduced.
  int64_t getLeastBytes(llvm::ArrayRef<StateOp> members) const;

  /// Results were removed: finds those of the gradients again.
  void renumberResults(mlir::func::FuncOp func);

private:
  void numberPhases(mlir::func::FuncOp func, const StateTable &states);

  llvm::DenseMap<mlir::Operation *, ParameterUse> uses;
  llvm::DenseMap<mlir::Operation *, unsigned> positions;
};

/// How many elements a flat state of `members` gathers in vain in a program,
/// because not all of them are gathered as often as others.
int64_t countVainElements(llvm::ArrayRef<StateOp> members,
                          const ProgramUses &uses);

/// What distinguishes an op from others that do the same to other tensors.
std::string describeOp(mlir::Operation *op);

/// Gives each of `members` its offset in elements. The return value is the flat
/// state's size, which `ranks` divides. Members and parts begin at multiples of
/// 128 bytes where elements are at least `leastBytes` long; of a smaller power
/// of two where ranks would otherwise exchange more than by rows, but of at
/// least `floorBytes` and `leastElements`, a power of two, too.
int64_t placeMembers(llvm::ArrayRef<StateOp> members, int64_t ranks,
                     int64_t leastBytes, int64_t floorBytes,
                     int64_t leastElements,
                     llvm::SmallVectorImpl<int64_t> &offsets);

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_FLATMEMBERS_H
