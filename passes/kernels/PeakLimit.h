//===- PeakLimit.h - What kernels may not raise -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_KERNELS_PEAKLIMIT_H
#define FSDP_PASSES_KERNELS_PEAKLIMIT_H

#include "ir/fsdp/Fsdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace fsdp {

/// The highest point of a program, in bytes and as an op's number, if dead
/// operands are reused where that is lower: what no addresses can stay below.
struct HighestPoint {
  int64_t bytes, time;
};
HighestPoint findHighest(mlir::func::FuncOp program);

/// Of `ops`, the number of the one that stands nearest to op number `time`.
size_t findNearest(mlir::func::FuncOp program,
                   llvm::ArrayRef<mlir::Operation *> ops, int64_t time);

/// The memory of a program as it was when this was made.
class PeakLimit {
public:
  explicit PeakLimit(mlir::func::FuncOp program)
      : original(program.clone()), most(findHighest(program).bytes) {}

  int64_t bytes() const { return most; }

  /// Whether addresses go no higher than they did, as they may although less is
  /// alive.
  bool holds(mlir::func::FuncOp program);

  /// Makes `program` what it was.
  void restore(mlir::func::FuncOp program);

private:
  mlir::OwningOpRef<mlir::func::FuncOp> original;
  int64_t most;
  std::optional<int64_t> placed; ///< where the original's addresses end
};

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_PEAKLIMIT_H
