//===- Operations.cpp - Code of one operation -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/emit/Operations.h"

#include <llvm/Support/ErrorHandling.h>

using namespace fsdp;
using plan::KernelOpT;

static llvm::Value *computeNumber(Code &code, KernelOpKind kind,
                                  llvm::ArrayRef<llvm::Value *> in) {
  KernelMath<Code> math(code);
  switch (kind) {
  case KernelOpKind::neg:
    return math.neg(in[0]);
  case KernelOpKind::abs:
    return math.abs(in[0]);
  case KernelOpKind::sqrt:
    return code.sqrt(in[0]);
  case KernelOpKind::exp:
    return math.exp(in[0]);
  case KernelOpKind::log:
    return math.log(in[0]);
  case KernelOpKind::tanh:
    return math.tanh(in[0]);
  case KernelOpKind::erf:
    return math.erf(in[0]);
  case KernelOpKind::floor:
    return code.floor(in[0]);
  case KernelOpKind::ceil:
    return code.ceil(in[0]);
  case KernelOpKind::trunc:
    return code.trunc(in[0]);
  case KernelOpKind::round_even:
    return code.nearest(in[0]);
  case KernelOpKind::add:
    return code.add(in[0], in[1]);
  case KernelOpKind::sub:
    return code.sub(in[0], in[1]);
  case KernelOpKind::mul:
    return code.mul(in[0], in[1]);
  case KernelOpKind::div:
    return code.div(in[0], in[1]);
  case KernelOpKind::maximum:
    return math.maximum(in[0], in[1]);
  case KernelOpKind::minimum:
    return math.minimum(in[0], in[1]);
  case KernelOpKind::fma:
    return code.fma(in[0], in[1], in[2]);
  case KernelOpKind::to_f32:
    return code.fromIntegers(in[0]);
  case KernelOpKind::round_bf16:
    return code.isApproximate() ? code.round(in[0], code.b.getBFloatTy())
                                : math.roundBf16(in[0]);
  case KernelOpKind::round_f16:
    return code.isApproximate() ? code.round(in[0], code.b.getHalfTy())
                                : math.roundF16(in[0]);
  default:
    llvm_unreachable("no operation on elements");
  }
}

llvm::Value *fsdp::compute(Code &code, const KernelOpT &op,
                           llvm::ArrayRef<llvm::Value *> in) {
  switch (kindOf(op)) {
  case KernelOpKind::constant:
    return llvm::ConstantFP::get(code.b.getFloatTy(),
                                 llvm::APFloat(float(op.number)));
  case KernelOpKind::integer:
    return code.integer(op.integers[0]);
  case KernelOpKind::equal:
    return code.equal(in[0], in[1]);
  case KernelOpKind::less:
    return code.less(in[0], in[1]);
  case KernelOpKind::less_equal:
    return code.lessEqual(in[0], in[1]);
  case KernelOpKind::add_integers:
    return code.b.CreateAdd(in[0], in[1]);
  case KernelOpKind::sub_integers:
    return code.b.CreateSub(in[0], in[1]);
  case KernelOpKind::mul_integers:
    return code.b.CreateMul(in[0], in[1]);
  case KernelOpKind::equal_integers:
    return code.b.CreateICmpEQ(in[0], in[1]);
  case KernelOpKind::less_integers:
    return code.b.CreateICmpSLT(in[0], in[1]);
  case KernelOpKind::less_equal_integers:
    return code.b.CreateICmpSLE(in[0], in[1]);
  case KernelOpKind::logical_and:
    return code.b.CreateAnd(in[0], in[1]);
  case KernelOpKind::logical_or:
    return code.b.CreateOr(in[0], in[1]);
  case KernelOpKind::logical_xor:
    return code.b.CreateXor(in[0], in[1]);
  case KernelOpKind::logical_not:
    return code.b.CreateNot(in[0]);
  case KernelOpKind::select:
    return code.b.CreateSelect(in[0], in[1], in[2]);
  default:
    return computeNumber(code, kindOf(op), in);
  }
}
