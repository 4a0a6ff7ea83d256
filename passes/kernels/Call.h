//===- Call.h - An operator whose formula is written ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_KERNELS_CALL_H
#define FSDP_PASSES_KERNELS_CALL_H

#include "passes/kernels/Builder.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

#include <optional>

namespace fsdp {

/// None for types that kernels neither read nor write; numbers of eight bits
/// are only written.
std::optional<plan::DType> toKernelDType(mlir::Type element);

/// f32, bf16 or f16.
inline bool isFloat(plan::DType type) {
  return type == plan::DType::f32 || type == plan::DType::bf16 ||
         type == plan::DType::f16;
}
/// Numbers inside; what is stored of them has the digits.
inline bool isFloat8(plan::DType type) {
  return type == plan::DType::f8e4m3fn || type == plan::DType::f8e5m2;
}

/// An operator, its operands as terms, and what it gives.
class KernelCall {
public:
  /// `operands`: one for each of the op's, as they are stored. `columns`: of
  /// its frame, in a row.
  KernelCall(mlir::Operation *op, KernelBuilder &builder,
             llvm::ArrayRef<Term> operands, int64_t columns);

  mlir::Operation *op;
  KernelBuilder &builder;
  /// Columns of the frame that are in a row.
  int64_t columns;

  /// The type that the operator computes in, as LibTorch promotes its tensors
  /// and numbers.
  plan::DType getCommonType() const { return common; }
  /// Of the first result.
  plan::DType getResultType() const;

  // Tensors, by the schema's name.

  bool hasTensor(llvm::StringRef name) const;
  /// As it is stored.
  Term getStored(llvm::StringRef name) const;
  llvm::SmallVector<Term> getStoredList(llvm::StringRef name) const;
  mlir::Value getValue(llvm::StringRef name) const;
  /// f32, with no more digits than the type that it is stored in has.
  Term getNumber(llvm::StringRef name);
  /// A tensor or a number in the common type: f32, an integer or a truth.
  Term get(llvm::StringRef name);
  /// Whether the tensor is one element, or the argument a number.
  bool isScalar(llvm::StringRef name) const;

  // Other arguments.

  std::optional<double> getStatic(llvm::StringRef name) const;
  /// In that type; 0 if there is none.
  Term getConstant(llvm::StringRef name, plan::DType type);
  /// Rounded to f32.
  Term number(double value) { return builder.number(value); }

  /// The result behind those that were given; its type's digits are kept.
  void give(Term result);
  /// The same, summed over all rows.
  void giveRowSum(Term result);
  llvm::ArrayRef<Term> getResults() const { return results; }

  /// Whether convert() can: numbers become integers in ways that are the
  /// processor's.
  bool canConvert(Term term, plan::DType to) const;
  /// In another type, as LibTorch converts numbers: none become truths by `!=
  /// 0`.
  Term convert(Term term, plan::DType to);
  /// A number in that type.
  Term constant(double value, plan::DType type);

private:
  std::optional<unsigned> find(llvm::StringRef name) const;

  llvm::SmallVector<std::pair<llvm::StringRef, unsigned>> names; // of operands
  llvm::SmallVector<Term> operands, results;
  plan::DType common;
};

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_CALL_H
