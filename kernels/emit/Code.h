//===- Code.h - Writes instructions -----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A builder of kernels/Math.h whose numbers are LLVM's values, vectors or
// scalars, and what else code is put together from.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_KERNELS_EMIT_CODE_H
#define FSDP_KERNELS_EMIT_CODE_H

#include "kernels/Math.h"
#include "kernels/emit/Target.h"

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace fsdp {

class Code {
public:
  using F = llvm::Value *;
  using I = llvm::Value *;
  using B = llvm::Value *;

  /// Writes to the end of `function`'s entry.
  Code(llvm::Function &function, const EmitTarget &target);

  const EmitTarget &target;
  llvm::Function &function;
  llvm::IRBuilder<> b;

  //===--------------------------------------------------------------------===//
  // Math.h's builder
  //===--------------------------------------------------------------------===//

  F number(float value, F like) {
    return llvm::ConstantFP::get(like->getType(), llvm::APFloat(value));
  }
  I bits(int32_t value, I like) {
    return llvm::ConstantInt::getSigned(like->getType(), value);
  }
  F add(F x, F y) { return b.CreateFAdd(x, y); }
  F sub(F x, F y) { return b.CreateFSub(x, y); }
  F mul(F x, F y) { return b.CreateFMul(x, y); }
  F div(F x, F y);
  /// A GPU's, within 2 ulp; none: Math.h's.
  std::optional<F> ownExp(F x);
  F fma(F x, F y, F z) {
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
  }
  F sqrt(F x) { return unary(llvm::Intrinsic::sqrt, x); }
  F floor(F x) { return unary(llvm::Intrinsic::floor, x); }
  F ceil(F x) { return unary(llvm::Intrinsic::ceil, x); }
  F trunc(F x) { return unary(llvm::Intrinsic::trunc, x); }
  F nearest(F x) { return unary(llvm::Intrinsic::roundeven, x); }
  I addBits(I x, I y) { return b.CreateAdd(x, y); }
  I subBits(I x, I y) { return b.CreateSub(x, y); }
  I andBits(I x, I y) { return b.CreateAnd(x, y); }
  I orBits(I x, I y) { return b.CreateOr(x, y); }
  I shiftLeft(I x, unsigned by) { return b.CreateShl(x, by); }
  I shiftRight(I x, unsigned by) { return b.CreateLShr(x, by); }
  I shiftRightSigned(I x, unsigned by) { return b.CreateAShr(x, by); }
  I asBits(F x) {
    return b.CreateBitCast(x, ofWidth(b.getInt32Ty(), widthOf(x)));
  }
  F asNumber(I x) {
    return b.CreateBitCast(x, ofWidth(b.getFloatTy(), widthOf(x)));
  }
  F fromBits(I x) {
    return b.CreateSIToFP(x, ofWidth(b.getFloatTy(), widthOf(x)));
  }
  B less(F x, F y) { return b.CreateFCmpOLT(x, y); }
  B lessEqual(F x, F y) { return b.CreateFCmpOLE(x, y); }
  B equal(F x, F y) { return b.CreateFCmpOEQ(x, y); }
  B isNan(F x) { return b.CreateFCmpUNO(x, x); }
  B orTruth(B x, B y) { return b.CreateOr(x, y); }
  F select(B which, F x, F y) { return b.CreateSelect(which, x, y); }
  I selectBits(B which, I x, I y) { return b.CreateSelect(which, x, y); }

  //===--------------------------------------------------------------------===//
  // Values and control
  //===--------------------------------------------------------------------===//

  bool isApproximate() const { return target.isGpu && !target.isExact; }
  /// To the nearest number of bf16 or f16 and back, as GPUs do: their NaN is
  /// not Math.h's.
  F round(F x, llvm::Type *type);

  llvm::Value *integer(int64_t value) { return b.getInt64(value); }
  /// A scalar's type as it is.
  static llvm::Type *ofWidth(llvm::Type *element, unsigned width);
  static unsigned widthOf(const llvm::Value *value);
  llvm::Value *splat(llvm::Value *scalar, unsigned width);
  /// Integers of 64 bits, rounded once.
  F fromIntegers(llvm::Value *x);

  /// Memory of the call's own.
  llvm::AllocaInst *slot(llvm::Type *type);
  /// `body` for each `i` from `from` while i < to.
  void loop(llvm::Value *from, llvm::Value *to, int64_t step,
            const std::function<void(llvm::Value *i)> &body);
  void when(llvm::Value *condition, const std::function<void()> &body);

private:
  F unary(llvm::Intrinsic::ID id, F x) { return b.CreateUnaryIntrinsic(id, x); }

  F each(llvm::ArrayRef<F> operands, llvm::Intrinsic::ID id);

  llvm::BasicBlock *entry;
};

} // namespace fsdp

#endif // FSDP_KERNELS_EMIT_CODE_H
