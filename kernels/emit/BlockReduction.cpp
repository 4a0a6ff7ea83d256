//===- BlockReduction.cpp - Sums and greatest numbers on a GPU ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/emit/BlockReduction.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include <limits>
#include <numeric>

using namespace fsdp;

static constexpr unsigned kSharedSpace = 3;

void fsdp::waitForBlock(Code &code) {
  code.b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, {},
                         {code.b.getInt32(0)});
}

BlockReduction::BlockReduction(Code &code, KernelOpKind kind,
                               const RowThreads &threads, unsigned lanes)
    : code(code), isSum(kind == KernelOpKind::sum_columns), threads(threads),
      vector(Code::ofWidth(code.b.getFloatTy(), lanes)),
      partial(code.slot(vector)) {}

llvm::Value *BlockReduction::combine(llvm::Value *x, llvm::Value *y) {
  return isSum ? code.add(x, y) : KernelMath<Code>(code).maximum(x, y);
}

llvm::Constant *BlockReduction::identity(llvm::Type *type) {
  return llvm::ConstantFP::get(
      type, isSum ? 0 : -std::numeric_limits<double>::infinity());
}

void BlockReduction::begin() { code.b.CreateStore(identity(vector), partial); }

void BlockReduction::take(llvm::Value *value, llvm::Value *isThere) {
  if (isThere)
    value = code.b.CreateSelect(isThere, value, identity(vector));
  llvm::Value *before = code.b.CreateLoad(vector, partial);
  code.b.CreateStore(combine(before, value), partial);
}

llvm::Value *BlockReduction::exchange(llvm::Value *x, unsigned distance) {
  return code.b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_f32, {},
                                {code.b.getInt32(-1), x,
                                 code.b.getInt32(distance),
                                 code.b.getInt32(kWarp - 1)});
}

llvm::Value *BlockReduction::combineThreads(llvm::Value *x, unsigned count) {
  for (unsigned distance = count / 2; distance > 0; distance /= 2)
    x = combine(x, exchange(x, distance));
  return x;
}

/// Each warp's result lies in shared memory, and each warp combines them all.
llvm::Value *BlockReduction::combineWarps(llvm::Value *x) {
  unsigned warps = threads.count / kWarp;
  llvm::Type *floats = llvm::ArrayType::get(code.b.getFloatTy(), kWarp);
  auto *shared = new llvm::GlobalVariable(
      *code.function.getParent(), floats, false,
      llvm::GlobalValue::InternalLinkage, llvm::PoisonValue::get(floats),
      "partial", nullptr, llvm::GlobalValue::NotThreadLocal, kSharedSpace);
  auto slotOf = [&](llvm::Value *warp) {
    return code.b.CreateInBoundsGEP(code.b.getFloatTy(), shared, warp);
  };
  llvm::Value *lane = code.b.CreateAnd(threads.thread, kWarp - 1);
  waitForBlock(code); // for those who still read the row before
  code.when(code.b.CreateICmpEQ(lane, code.b.getInt32(0)), [&] {
    code.b.CreateStore(x, slotOf(code.b.CreateLShr(threads.thread, 5)));
  });
  waitForBlock(code);
  llvm::Value *from = code.b.CreateAnd(lane, warps - 1);
  return combineThreads(code.b.CreateLoad(code.b.getFloatTy(), slotOf(from)),
                        warps);
}

llvm::Value *BlockReduction::finish() {
  llvm::Value *rest = code.b.CreateLoad(vector, partial);
  for (unsigned width = Code::widthOf(rest) / 2; width >= 1; width /= 2) {
    llvm::SmallVector<int> low(width), high(width);
    std::iota(low.begin(), low.end(), 0);
    std::iota(high.begin(), high.end(), int(width));
    auto take = [&](const llvm::SmallVector<int> &lanes) {
      return width == 1 ? code.b.CreateExtractElement(rest, uint64_t(lanes[0]))
                        : code.b.CreateShuffleVector(rest, lanes);
    };
    rest = combine(take(low), take(high));
  }
  rest = combineThreads(rest, std::min(threads.count, kWarp));
  return threads.count > kWarp ? combineWarps(rest) : rest;
}
