//===- LossInputs.h - What chunks of a loss read from outside ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_MEMORY_LOSSINPUTS_H
#define FSDP_PASSES_MEMORY_LOSSINPUTS_H

#include "passes/analysis/TensorOps.h"
#include "passes/memory/LossOperands.h"
#include "passes/memory/LossRegion.h"

namespace fsdp {

/// Cuts what a region reads to the rows of one chunk after the other. `isAll`
/// of a value from outside: it has those rows too that a selection leaves out.
class LossInputs {
public:
  LossInputs(const LossRegion &region, TensorOps &ops)
      : region(region), ops(ops) {}

  /// Lets all that the region reads stand in front of its first op.
  void prepare();

  /// From here on a chunk of the rows from `start` to `end` is built, of those
  /// that are computed.
  void beginChunk(int64_t start, int64_t end);
  /// Rows of the chunk.
  int64_t getCount() const { return end - start; }

  /// What `build` makes once, for all chunks, in front of the first one.
  mlir::Value buildAhead(llvm::function_ref<mlir::Value()> build);

  /// The rows that are computed, one behind the other along the first dim.
  mlir::Value getWhole(mlir::Value value, unsigned lead, bool isAll);
  /// Those of the chunk.
  mlir::Value getOwn(mlir::Value value, unsigned lead, bool isAll);
  /// `operand` as an op of the chunk takes it whose result has `type` with
  /// `lead` dims of rows. None of the region's values.
  mlir::Value take(mlir::Value operand, mlir::RankedTensorType type,
                   unsigned lead, bool isAll);

private:
  void forgetShapes();
  void hoist(mlir::Value value);
  mlir::Value makeWhole(mlir::Value value, unsigned lead, bool isAll);

  const LossRegion &region;
  TensorOps &ops;
  int64_t start = 0, end = 0;
  mlir::Operation *firstChunk = nullptr; ///< the first op of the first chunk
  llvm::DenseMap<mlir::Value, mlir::Value> whole;
  llvm::DenseMap<mlir::Value, mlir::Value> own; ///< of the chunk
  llvm::DenseMap<std::pair<mlir::Value, mlir::Type>, mlir::Value> spreads;
};

} // namespace fsdp

#endif // FSDP_PASSES_MEMORY_LOSSINPUTS_H
