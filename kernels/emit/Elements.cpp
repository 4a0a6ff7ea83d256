//===- Elements.cpp - Elements of memory as values ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/emit/Elements.h"

#include "plan/DType.h"

using namespace fsdp;
using plan::DType;

llvm::Type *fsdp::memoryType(Code &code, DType dtype) {
  if (dtype == DType::f32)
    return code.b.getFloatTy();
  return code.b.getIntNTy(8 * unsigned(dtypeBytes(dtype)));
}

static llvm::Type *integers(Code &code, unsigned bits, llvm::Value *like) {
  return Code::ofWidth(code.b.getIntNTy(bits), Code::widthOf(like));
}

static llvm::Value *widenHalf(Code &code, llvm::Value *loaded) {
  llvm::Value *bits = code.b.CreateZExt(loaded, integers(code, 32, loaded));
  auto number = [&](int32_t value) { return code.bits(value, bits); };
  llvm::Value *rest = code.andBits(bits, number(0x7fff));
  llvm::Value *sign = code.shiftLeft(code.andBits(bits, number(0x8000)), 16);
  llvm::Value *shifted = code.shiftLeft(rest, 13);
  // 2^-24 is the least; halves' numbers are all exact in f32.
  llvm::Value *count = code.fromBits(rest);
  llvm::Value *least =
      code.asBits(code.mul(count, code.number(0x1p-24f, count)));
  llvm::Value *normal = code.addBits(shifted, number(112 << 23));
  llvm::Value *special = code.orBits(shifted, number(0x7f800000));
  llvm::Value *size = code.selectBits(
      code.b.CreateICmpULT(rest, number(0x400)), least,
      code.selectBits(code.b.CreateICmpUGE(rest, number(0x7c00)), special,
                      normal));
  return code.asNumber(code.orBits(size, sign));
}

static llvm::Value *widenOnGpu(Code &code, llvm::Value *loaded) {
  unsigned width = Code::widthOf(loaded);
  llvm::Value *half =
      code.b.CreateBitCast(loaded, Code::ofWidth(code.b.getHalfTy(), width));
  return code.b.CreateFPExt(half, Code::ofWidth(code.b.getFloatTy(), width));
}

llvm::Value *fsdp::widen(Code &code, DType dtype, llvm::Value *loaded) {
  switch (dtype) {
  case DType::f32:
  case DType::i64:
    return loaded;
  case DType::bf16:
    return code.asNumber(code.shiftLeft(
        code.b.CreateZExt(loaded, integers(code, 32, loaded)), 16));
  case DType::f16:
    return code.target.isGpu ? widenOnGpu(code, loaded)
                             : widenHalf(code, loaded);
  case DType::u8:
    return code.b.CreateZExt(loaded, integers(code, 64, loaded));
  case DType::bool_:
    return code.b.CreateICmpNE(loaded,
                               llvm::Constant::getNullValue(loaded->getType()));
  default:
    return code.b.CreateSExt(loaded, integers(code, 64, loaded));
  }
}

/// Of a number that is one of f16's.
static llvm::Value *narrowHalf(Code &code, llvm::Value *rounded) {
  llvm::Value *bits = code.asBits(rounded);
  auto number = [&](int32_t value) { return code.bits(value, bits); };
  llvm::Value *sign =
      code.shiftRight(code.andBits(bits, number(int32_t(0x80000000))), 16);
  llvm::Value *rest = code.andBits(bits, number(0x7fffffff));
  llvm::Value *normal =
      code.shiftRight(code.subBits(rest, number(112 << 23)), 13);
  // Multiples of 2^-24: the low bits of their sum with 0.5.
  llvm::Value *half = code.number(0.5f, rounded);
  llvm::Value *least = code.subBits(
      code.asBits(code.add(code.asNumber(rest), half)), code.asBits(half));
  llvm::Value *size = code.selectBits(
      code.b.CreateICmpULT(rest, number(113 << 23)), least, normal);
  size = code.selectBits(code.b.CreateICmpUGE(rest, number(0x7f800000)),
                         number(0x7c00), size);
  llvm::Value *result =
      code.selectBits(code.b.CreateICmpUGT(rest, number(0x7f800000)),
                      number(0x7e00), code.orBits(size, sign));
  return code.b.CreateTrunc(result, integers(code, 16, result));
}

/// By one instruction, whose NaN is another one.
static llvm::Value *narrowOnGpu(Code &code, llvm::Type *type,
                                llvm::Value *value) {
  llvm::Value *narrow =
      code.b.CreateFPTrunc(value, Code::ofWidth(type, Code::widthOf(value)));
  return code.b.CreateBitCast(narrow, integers(code, 16, value));
}

llvm::Value *fsdp::narrow(Code &code, DType dtype, llvm::Value *value,
                          bool isRounded) {
  KernelMath<Code> math(code);
  if (code.target.isGpu && !code.target.isExact &&
      (dtype == DType::bf16 || dtype == DType::f16))
    return narrowOnGpu(
        code, dtype == DType::bf16 ? code.b.getBFloatTy() : code.b.getHalfTy(),
        value);
  switch (dtype) {
  case DType::f32:
  case DType::i64:
    return value;
  case DType::bf16: {
    llvm::Value *rounded = isRounded ? value : math.roundBf16(value);
    return code.b.CreateTrunc(code.shiftRight(code.asBits(rounded), 16),
                              integers(code, 16, value));
  }
  case DType::f16:
    return narrowHalf(code, isRounded ? value : math.roundF16(value));
  case DType::f8e4m3fn:
  case DType::f8e5m2:
    return code.b.CreateTrunc(math.toFloat8(value, dtype == DType::f8e4m3fn),
                              integers(code, 8, value));
  case DType::bool_:
    return code.b.CreateZExt(value, integers(code, 8, value));
  default:
    return code.b.CreateTrunc(
        value, integers(code, 8 * unsigned(dtypeBytes(dtype)), value));
  }
}
