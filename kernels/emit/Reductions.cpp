//===- Reductions.cpp - Sums and greatest numbers of rows -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/emit/Reductions.h"

#include <limits>
#include <numeric>

using namespace fsdp;
using llvm::SmallVector;

Reduction::Reduction(Code &code, KernelOpKind kind, bool inMemory)
    : code(code), isSum(kind == KernelOpKind::sum_columns), inMemory(inMemory),
      vector(Code::ofWidth(code.b.getFloatTy(), code.target.lanes)) {
  unsigned count = kKernelLanes / code.target.lanes;
  if (!inMemory) {
    for (unsigned i = 0; i < count; ++i)
      partials.push_back(code.slot(vector));
    return;
  }
  llvm::AllocaInst *all =
      code.slot(llvm::ArrayType::get(code.b.getFloatTy(), kKernelLanes));
  all->setAlignment(llvm::Align(64));
  for (unsigned i = 0; i < count; ++i)
    partials.push_back(code.b.CreateConstInBoundsGEP1_64(
        code.b.getFloatTy(), all, uint64_t(i) * code.target.lanes));
}

llvm::Value *Reduction::combine(llvm::Value *x, llvm::Value *y) {
  return isSum ? code.add(x, y) : KernelMath<Code>(code).maximum(x, y);
}

/// What changes no partial result: they begin as 0, and so are never -0.
llvm::Constant *Reduction::identity(llvm::Type *type) {
  return llvm::ConstantFP::get(
      type, isSum ? 0 : -std::numeric_limits<double>::infinity());
}

void Reduction::begin() {
  for (llvm::Value *partial : partials)
    code.b.CreateStore(identity(vector), partial);
}

void Reduction::take(llvm::Value *value, llvm::Value *column, unsigned lane,
                     const Lanes &lanes) {
  if (!lanes.areAll()) {
    SmallVector<llvm::Constant *> bits;
    for (unsigned i = 0; i < lanes.width; ++i)
      bits.push_back(code.b.getInt1(i >= lanes.from && i < lanes.to));
    value = code.b.CreateSelect(llvm::ConstantVector::get(bits), value,
                                identity(vector));
  }
  llvm::Value *at = partials[lane / code.target.lanes];
  if (inMemory)
    at = code.b.CreateInBoundsGEP(
        code.b.getFloatTy(), partials[0],
        code.b.CreateAnd(column, code.integer(kKernelLanes - 1)));
  llvm::Align alignment(4 * code.target.lanes);
  llvm::Value *before = code.b.CreateAlignedLoad(vector, at, alignment);
  code.b.CreateAlignedStore(combine(before, value), at, alignment);
}

/// Partial result i takes that at a distance of half of what is left.
llvm::Value *Reduction::finish() {
  SmallVector<llvm::Value *> vectors;
  for (llvm::Value *partial : partials)
    vectors.push_back(code.b.CreateLoad(vector, partial));
  while (vectors.size() > 1) {
    size_t half = vectors.size() / 2;
    for (size_t i = 0; i < half; ++i)
      vectors[i] = combine(vectors[i], vectors[i + half]);
    vectors.resize(half);
  }
  llvm::Value *rest = vectors[0];
  for (unsigned width = code.target.lanes / 2; width >= 1; width /= 2) {
    SmallVector<int> low(width), high(width);
    std::iota(low.begin(), low.end(), 0);
    std::iota(high.begin(), high.end(), int(width));
    auto take = [&](const SmallVector<int> &lanes) {
      return width == 1 ? code.b.CreateExtractElement(rest, uint64_t(lanes[0]))
                        : code.b.CreateShuffleVector(rest, lanes);
    };
    rest = combine(take(low), take(high));
  }
  return rest;
}
