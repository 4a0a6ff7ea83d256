//===- Lanes.cpp - Vectors in memory --------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/emit/Lanes.h"

#include <algorithm>
#include <bit>
#include <numeric>

using namespace fsdp;
using llvm::SmallVector;

llvm::Align LaneMemory::alignmentOf(llvm::Type *type) const {
  return type == element ? llvm::Align(element->getPrimitiveSizeInBits() / 8)
                         : aligned;
}

llvm::Value *LaneMemory::behind(llvm::Value *address, int64_t elements) {
  if (elements == 0)
    return address;
  return code.b.CreateGEP(element, address, code.integer(elements));
}

llvm::Value *LaneMemory::loadPlain(llvm::Type *type, llvm::Value *address) {
  llvm::LoadInst *load =
      code.b.CreateAlignedLoad(type, address, alignmentOf(type));
  mark(load);
  return load;
}

void LaneMemory::storePlain(llvm::Value *value, llvm::Value *address) {
  mark(
      code.b.CreateAlignedStore(value, address, alignmentOf(value->getType())));
}

llvm::Value *LaneMemory::maskOf(const Lanes &lanes) {
  if (lanes.mask)
    return lanes.mask;
  SmallVector<llvm::Constant *> bits;
  for (unsigned i = 0; i < lanes.width; ++i)
    bits.push_back(code.b.getInt1(i >= lanes.from && i < lanes.to));
  return llvm::ConstantVector::get(bits);
}

llvm::Value *LaneMemory::loadMasked(llvm::Value *address, const Lanes &lanes) {
  llvm::Type *type = Code::ofWidth(element, lanes.width);
  llvm::CallInst *load = code.b.CreateMaskedLoad(
      type, behind(address, -int64_t(lanes.from)), aligned, maskOf(lanes),
      llvm::Constant::getNullValue(type));
  mark(load);
  return load;
}

/// Lengths of powers of two that make `count`, the longest first, with what is
/// before each.
static SmallVector<std::pair<unsigned, unsigned>> piecesOf(unsigned count) {
  SmallVector<std::pair<unsigned, unsigned>> pieces;
  for (unsigned before = 0; before < count;) {
    unsigned length = std::bit_floor(count - before);
    pieces.emplace_back(before, length);
    before += length;
  }
  return pieces;
}

llvm::Value *LaneMemory::loadPieces(llvm::Value *address, const Lanes &lanes) {
  llvm::Value *all =
      llvm::Constant::getNullValue(Code::ofWidth(element, lanes.width));
  for (auto [before, length] : piecesOf(lanes.to - lanes.from)) {
    unsigned at = lanes.from + before;
    llvm::Value *piece =
        loadPlain(Code::ofWidth(element, length), behind(address, before));
    if (length == 1) {
      all = code.b.CreateInsertElement(all, piece, uint64_t(at));
      continue;
    }
    SmallVector<int> wide(lanes.width, -1), mixed(lanes.width);
    std::iota(wide.begin(), wide.begin() + length, 0);
    llvm::Value *widened = code.b.CreateShuffleVector(piece, wide);
    std::iota(mixed.begin(), mixed.end(), 0);
    for (unsigned i = 0; i < length; ++i)
      mixed[at + i] = int(lanes.width + i);
    all = code.b.CreateShuffleVector(all, widened, mixed);
  }
  return all;
}

llvm::Value *LaneMemory::loadEach(llvm::Value *address, const Lanes &lanes) {
  llvm::Value *all =
      llvm::Constant::getNullValue(Code::ofWidth(element, lanes.width));
  for (unsigned i = lanes.from; i < lanes.to; ++i)
    all = code.b.CreateInsertElement(
        all,
        loadPlain(element, behind(address, int64_t(i - lanes.from) * stride)),
        uint64_t(i));
  return all;
}

/// One piece is as good. And LLVM 22 must not see a mask of one lane, which it
/// stores with all of the number's bytes even where the element has fewer.
bool LaneMemory::wantsMask(const Lanes &lanes) const {
  return lanes.mask || (code.target.masksMemory &&
                        !std::has_single_bit(lanes.to - lanes.from));
}

llvm::Value *LaneMemory::load(llvm::Value *address, const Lanes &lanes) {
  if (lanes.width == 1)
    return loadPlain(element, address);
  if (stride == 0)
    return code.splat(loadPlain(element, address), lanes.width);
  if (stride != 1)
    return loadEach(address, lanes);
  if (lanes.areAll())
    return loadPlain(Code::ofWidth(element, lanes.width), address);
  return wantsMask(lanes) ? loadMasked(address, lanes)
                          : loadPieces(address, lanes);
}

void LaneMemory::store(llvm::Value *value, llvm::Value *address,
                       const Lanes &lanes) {
  if (lanes.width == 1 || (stride == 1 && lanes.areAll()))
    return storePlain(value, address);
  if (stride != 1) {
    for (unsigned i = lanes.from; i < lanes.to; ++i)
      storePlain(code.b.CreateExtractElement(value, uint64_t(i)),
                 behind(address, int64_t(i - lanes.from) * stride));
    return;
  }
  if (wantsMask(lanes)) {
    mark(code.b.CreateMaskedStore(value, behind(address, -int64_t(lanes.from)),
                                  aligned, maskOf(lanes)));
    return;
  }
  for (auto [before, length] : piecesOf(lanes.to - lanes.from)) {
    SmallVector<int> taken(length);
    std::iota(taken.begin(), taken.end(), int(lanes.from + before));
    storePlain(length == 1
                   ? code.b.CreateExtractElement(value, uint64_t(taken[0]))
                   : code.b.CreateShuffleVector(value, taken),
               behind(address, before));
  }
}
