//===- Rules.h - What operators do to an element ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A rule of an operator says which elements of its operands belong to an
// element of its result (a frame), and by which formula that is computed (an
// emitter). Rules are in tables by family, in the folder `rules`.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_RULES_H
#define FSDP_PASSES_KERNELS_RULES_H

#include "passes/kernels/Call.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/StringRef.h"

namespace fsdp {

using KernelShape = llvm::SmallVector<int64_t>;

/// How an operator's tensors lie over each other.
struct KernelFrame {
  /// Of each operand, the shape that it is broadcast to, right-aligned.
  llvm::SmallVector<KernelShape, 4> operands;
  /// How many columns of this shape have to be in one row (0: any number). No
  /// operand means the first result.
  KernelShape shape;
  int64_t columns = 0;
  /// Of each result, whether it is a sum over rows.
  llvm::SmallVector<bool, 4> isRowSum;
};

struct KernelRule {
  llvm::StringLiteral name; ///< without its overload: "mul"
  /// Fails for arguments that the rule is not for.
  mlir::FailureOr<KernelFrame> (*frame)(mlir::Operation *);
  /// Gives all results; fails for arguments that the rule is not for.
  mlir::LogicalResult (*emit)(KernelCall &);
  /// Whether its result is a view, or may as well be one.
  bool isView = false;
};

/// Null for ops without one, and those that write an operand.
const KernelRule *findKernelRule(mlir::Operation *op);

llvm::ArrayRef<KernelRule> getArithmeticRules();
llvm::ArrayRef<KernelRule> getComparisonRules();
llvm::ArrayRef<KernelRule> getActivationRules();
llvm::ArrayRef<KernelRule> getCastRules();
llvm::ArrayRef<KernelRule> getColumnRules();
llvm::ArrayRef<KernelRule> getReductionRules();
llvm::ArrayRef<KernelRule> getSoftmaxRules();
llvm::ArrayRef<KernelRule> getNormRules();
llvm::ArrayRef<KernelRule> getLossRules();

// Frames of several families.

/// All operands are broadcast to the result's shape, the same for all results.
mlir::FailureOr<KernelFrame> framePointwise(mlir::Operation *op);
/// The same, and all of dim `dim` (default -1), which is the last one, in a
/// row.
mlir::FailureOr<KernelFrame> frameLastDim(mlir::Operation *op);

/// The sum, or the greatest, of the columns of a row.
Term sumColumns(KernelCall &call, Term term);
Term maxColumns(KernelCall &call, Term term);

/// The shape of a tensor.
llvm::ArrayRef<int64_t> shapeOf(mlir::Value value);
int64_t countElements(llvm::ArrayRef<int64_t> shape);
/// A static argument that is a number, or a list of numbers; a dim counted from
/// the front.
std::optional<int64_t> getInteger(mlir::Operation *op, llvm::StringRef name);
llvm::SmallVector<int64_t> getIntegers(mlir::Operation *op,
                                       llvm::StringRef name);
/// How a loss of rows becomes its result, by ATen's numbers, and the target
/// whose rows it leaves out.
enum class LossReduction : int64_t { None = 0, Mean = 1, Sum = 2 };
LossReduction getLossReduction(mlir::Operation *op);
int64_t getIgnoredTarget(mlir::Operation *op);
int64_t fromFront(int64_t dim, size_t rank);

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_RULES_H
