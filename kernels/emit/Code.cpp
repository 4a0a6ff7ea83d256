//===- Code.cpp - Writes instructions -------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/emit/Code.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

using namespace fsdp;

Code::Code(llvm::Function &function, const EmitTarget &target)
    : target(target), function(function), b(function.getContext()),
      entry(
          llvm::BasicBlock::Create(function.getContext(), "entry", &function)) {
  b.SetInsertPoint(entry);
}

llvm::Type *Code::ofWidth(llvm::Type *element, unsigned width) {
  return width == 1 ? element : llvm::FixedVectorType::get(element, width);
}

unsigned Code::widthOf(const llvm::Value *value) {
  auto *type = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return type ? type->getNumElements() : 1;
}

llvm::Value *Code::splat(llvm::Value *scalar, unsigned width) {
  return width == 1 ? scalar : b.CreateVectorSplat(width, scalar);
}

Code::F Code::fromIntegers(llvm::Value *x) {
  llvm::Type *floats = ofWidth(b.getFloatTy(), widthOf(x));
  if (!target.roundsTwice)
    return b.CreateSIToFP(x, floats);
  // What f64 does not hold gets its low 11 bits in one, which says whether
  // there was something: f64 then holds it, and f32's rounding sees the same.
  auto number = [&](int64_t value) {
    return llvm::ConstantInt::getSigned(x->getType(), value);
  };
  llvm::Value *size =
      b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, b.CreateNot(x));
  llvm::Value *isLarge = b.CreateICmpSGE(size, number(int64_t{1} << 53));
  llvm::Value *low = b.CreateAnd(x, number(0x7ff));
  llvm::Value *sticky =
      b.CreateAnd(b.CreateAdd(low, number(0x7ff)), number(0x800));
  llvm::Value *cut =
      b.CreateOr(b.CreateAnd(x, number(~int64_t{0x7ff})), sticky);
  llvm::Value *exact = b.CreateSelect(isLarge, cut, x);
  llvm::Type *doubles = ofWidth(b.getDoubleTy(), widthOf(x));
  return b.CreateFPTrunc(b.CreateSIToFP(exact, doubles), floats);
}

/// Of instructions that take numbers one by one.
Code::F Code::each(llvm::ArrayRef<F> operands, llvm::Intrinsic::ID id) {
  llvm::SmallVector<llvm::Type *, 1> types;
  if (llvm::Intrinsic::isOverloaded(id))
    types.push_back(b.getFloatTy());
  unsigned width = widthOf(operands.front());
  if (width == 1)
    return b.CreateIntrinsic(id, types, operands);
  F all = llvm::PoisonValue::get(operands.front()->getType());
  for (uint64_t i = 0; i < width; ++i) {
    llvm::SmallVector<F, 2> numbers;
    for (F operand : operands)
      numbers.push_back(b.CreateExtractElement(operand, i));
    all = b.CreateInsertElement(all, b.CreateIntrinsic(id, types, numbers), i);
  }
  return all;
}

/// A product by the GPU's reciprocal would be 0 where that is less than the
/// least normal number, whatever x is.
Code::F Code::div(F x, F y) {
  if (isApproximate())
    return each({x, y}, llvm::Intrinsic::nvvm_div_full);
  return b.CreateFDiv(x, y);
}

/// 2^r of the GPU, |r| <= 1/2, and two factors as Math.h has them.
std::optional<Code::F> Code::ownExp(F x) {
  if (!isApproximate())
    return std::nullopt;
  F least = number(-104.5f, x), most = number(89.5f, x);
  F clamped = select(less(x, least), least, x);
  clamped = select(less(most, clamped), most, clamped);
  F magic = number(12583166.0f, x), log2e = number(1.44269502f, x);
  F shifted = fma(clamped, log2e, magic);
  F r = fma(clamped, log2e, sub(magic, shifted));
  r = fma(clamped, number(1.925963033500011e-8f, x), r);
  F p = each({r}, llvm::Intrinsic::nvvm_ex2_approx_ftz);
  I whole = asBits(shifted), half = shiftRight(whole, 1);
  F scaled = mul(p, asNumber(shiftLeft(half, 23)));
  return mul(scaled, asNumber(shiftLeft(subBits(whole, half), 23)));
}

Code::F Code::round(F x, llvm::Type *type) {
  return b.CreateFPExt(b.CreateFPTrunc(x, ofWidth(type, widthOf(x))),
                       x->getType());
}

llvm::AllocaInst *Code::slot(llvm::Type *type) {
  llvm::IRBuilder<> front(entry, entry->getFirstInsertionPt());
  return front.CreateAlloca(type);
}

void Code::loop(llvm::Value *from, llvm::Value *to, int64_t step,
                const std::function<void(llvm::Value *i)> &body) {
  auto block = [&](const char *name) {
    return llvm::BasicBlock::Create(function.getContext(), name, &function);
  };
  llvm::BasicBlock *before = b.GetInsertBlock(), *in = block("loop"),
                   *done = block("done");
  b.CreateCondBr(b.CreateICmpSLT(from, to), in, done);
  b.SetInsertPoint(in);
  llvm::PHINode *i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(from, before);
  body(i);
  llvm::Value *next = b.CreateAdd(i, integer(step), "", true, true);
  i->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, to), in, done);
  done->moveAfter(b.GetInsertBlock());
  b.SetInsertPoint(done);
}

void Code::when(llvm::Value *condition, const std::function<void()> &body) {
  auto block = [&](const char *name) {
    return llvm::BasicBlock::Create(function.getContext(), name, &function);
  };
  llvm::BasicBlock *in = block("when"), *done = block("done");
  b.CreateCondBr(condition, in, done);
  b.SetInsertPoint(in);
  body();
  b.CreateBr(done);
  done->moveAfter(b.GetInsertBlock());
  b.SetInsertPoint(done);
}
