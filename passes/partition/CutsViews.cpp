//===- CutsViews.cpp - Cuts of views, joins and their gradients -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/partition/Cuts.h"

#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace fsdp;

SmallVector<int64_t> fsdp::mapDims(const WholeOp &op) {
  RankedTensorType from = op.operands.front();
  int64_t rank = from.getRank();
  StringRef name = op.getName();
  SmallVector<int64_t> map(rank, kNoDim);
  auto identity = [&] {
    for (int64_t i = 0; i < rank; ++i)
      map[i] = i;
  };
  auto without = [&](ArrayRef<int64_t> dropped) {
    int64_t next = 0;
    for (int64_t i = 0; i < rank; ++i)
      map[i] = llvm::is_contained(dropped, i) ? kNoDim : next++;
  };
  if (name == "aten.t") {
    identity();
    if (rank == 2)
      std::swap(map[0], map[1]);
  } else if (name == "aten.transpose.int") {
    identity();
    if (rank != 0)
      std::swap(map[*op.getDim("dim0", rank)], map[*op.getDim("dim1", rank)]);
  } else if (name == "aten.permute") {
    SmallVector<int64_t> dims = *op.getDims("dims", rank);
    for (auto [to, dim] : llvm::enumerate(dims))
      map[dim] = to;
  } else if (name == "aten.unsqueeze") {
    int64_t at = *op.getDim("dim", rank + 1);
    for (int64_t i = 0; i < rank; ++i)
      map[i] = i < at ? i : i + 1;
  } else if (name.starts_with("aten.squeeze")) {
    SmallVector<int64_t> dims;
    if (std::optional<SmallVector<int64_t>> told = op.getDims("dim", rank))
      dims = *told;
    else
      for (int64_t i = 0; i < rank; ++i)
        dims.push_back(i);
    llvm::erase_if(dims,
                   [&](int64_t dim) { return from.getDimSize(dim) != 1; });
    without(dims);
  } else if (name == "aten.select.int" || name == "aten.unbind.int") {
    without({*op.getDim("dim", rank)});
  } else if (name == "aten.expand") {
    int64_t front = op.results.front().getRank() - rank;
    for (int64_t i = 0; i < rank; ++i)
      if (op.results.front().getDimSize(i + front) == from.getDimSize(i))
        map[i] = i + front;
  } else {
    identity();
    // Parts of a dim: split, chunk, slice.
    if (std::optional<int64_t> dim = op.getDim("dim", rank))
      if (op.results.front().getDimSize(*dim) != from.getDimSize(*dim) ||
          (name == "aten.slice.Tensor" && op.getInt("step").value_or(1) != 1))
        map[*dim] = kNoDim;
  }
  return map;
}

void cuts::addViews(const WholeOp &op, std::vector<Cut> &cuts) {
  addEach(op, mapDims(op), cuts);
  addPartial(op, cuts);
}

// Elements of another size lie within the last dim. Bits of a sum are no sum of
// bits.
void cuts::addRetyped(const WholeOp &op, std::vector<Cut> &cuts) {
  int64_t rank = op.operands.front().getRank();
  SmallVector<int64_t> dims(rank, kNoDim);
  for (int64_t i = 0; i < rank; ++i)
    if (i + 1 < rank || op.results.front().getShape().take_front(rank) ==
                            op.operands.front().getShape())
      dims[i] = i;
  addEach(op, dims, cuts);
}

static int64_t getProduct(ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

// Dims that are split into several, or merged, are runs of the same elements. A
// part of one is in the run a part of as many blocks as there are in front of
// it: a cut of the slowest dim is one of the run, and one of the sequence has a
// block for each row of the batch.
void cuts::addReshapes(const WholeOp &op, const Pieces &pieces,
                       std::vector<Cut> &cuts) {
  ArrayRef<int64_t> from = op.operands.front().getShape(),
                    to = op.results.front().getShape();
  addPartial(op, cuts);
  if (op.operands.front().getNumElements() == 0)
    return;
  SmallVector<int64_t> blocks{1};
  llvm::append_range(blocks, pieces.blocks);
  auto addRun = [&](size_t firstFrom, size_t endFrom, size_t firstTo,
                    size_t endTo) {
    for (size_t i = firstFrom; i < endFrom; ++i)
      for (size_t j = firstTo; j < endTo; ++j) {
        int64_t before = getProduct(from.slice(firstFrom, i - firstFrom));
        int64_t beforeTo = getProduct(to.slice(firstTo, j - firstTo));
        if (from[i] == 1 || to[j] == 1)
          continue;
        for (int64_t each : blocks) {
          int64_t all = before * each, own = all / beforeTo;
          bool isOne = each == 1 && own == 1;
          if (all % beforeTo != 0 || from[i] % each != 0 || to[j] % own != 0 ||
              (pieces.blocks.empty() && !isOne))
            continue;
          Cut cut{{Place(i, each)}, {Place(j, own)}};
          if (!llvm::is_contained(cuts, cut))
            cuts.push_back(cut);
        }
      }
  };
  size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    size_t firstFrom = i, firstTo = j;
    int64_t left = from[i++], right = to[j++];
    while (left != right)
      if (left < right)
        left *= from[i++];
      else
        right *= to[j++];
    addRun(firstFrom, i, firstTo, j);
  }
}

/// Rows [begin, end) of a slice along a dim of `size` rows, or of its gradient.
static std::pair<int64_t, int64_t> getRange(const WholeOp &op, int64_t size) {
  auto clamp = [&](std::optional<int64_t> told, int64_t otherwise) {
    int64_t at = told.value_or(otherwise);
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  return {clamp(op.getInt("start"), 0), clamp(op.getInt("end"), size)};
}

void cuts::addBlocks(const WholeOp &op, const Pieces &pieces,
                     std::vector<Cut> &cuts) {
  if (op.operands.empty() || pieces.isContext)
    return;
  bool joins =
      op.getName() == "aten.cat" || op.getName() == "aten.slice_backward";
  // The side that has all blocks, and that which has some in each tensor.
  ArrayRef<RankedTensorType> one = joins ? op.results : op.operands;
  ArrayRef<RankedTensorType> several = joins ? op.operands : op.results;
  RankedTensorType all = one.front();
  for (RankedTensorType type : several)
    if (!type || type.getRank() != all.getRank())
      return;
  int64_t along = *op.getDim("dim", all.getRank());
  int64_t rows = all.getDimSize(along), unit = rows;
  for (RankedTensorType type : several)
    unit = std::gcd(unit, type.getDimSize(along));
  if (op.getName().contains("slice")) {
    auto [begin, end] = getRange(op, rows);
    if (op.getInt("step").value_or(1) != 1)
      return;
    unit = std::gcd(unit, begin);
  }
  if (unit == 0 || unit == rows)
    return;
  auto add = [&](int64_t block) {
    if (unit % block != 0)
      return;
    Cut cut = whole(op);
    auto &large = joins ? cut.results : cut.operands;
    auto &small = joins ? cut.operands : cut.results;
    large.front() = Place(along, rows / block);
    for (auto [place, type] : llvm::zip_equal(small, several))
      place = Place(along, type.getDimSize(along) / block);
    if (!llvm::is_contained(cuts, cut))
      cuts.push_back(cut);
  };
  if (joins)
    return add(unit);
  // In blocks that what is split lies in.
  for (int64_t blocks : pieces.blocks)
    if (blocks > 1 && rows % blocks == 0)
      add(rows / blocks);
}

void cuts::addJoins(const WholeOp &op, std::vector<Cut> &cuts) {
  StringRef name = op.getName();
  if (name.starts_with("aten.new_")) {
    Cut cut = whole(op);
    cut.operands.assign(op.operands.size(), kAnyPlace);
    cuts.push_back(cut);
    return;
  }
  if (op.operands.empty())
    return;
  int64_t rank = op.operands.front().getRank();
  SmallVector<int64_t> dims(rank, kNoDim);
  if (name == "aten.constant_pad_nd") {
    SmallVector<int64_t> pad = *op.getInts("pad");
    for (int64_t i = 0; i < rank; ++i) {
      size_t at = 2 * (rank - 1 - i);
      if (at + 1 >= pad.size() || (pad[at] == 0 && pad[at + 1] == 0))
        dims[i] = i;
    }
    addEach(op, dims, cuts);
    return;
  }
  // Along a dim that is new, or in which parts lie one behind the other.
  bool isNew = name == "aten.stack" || name == "aten.select_backward";
  int64_t along = *op.getDim("dim", isNew ? rank + 1 : rank);
  for (RankedTensorType type : op.operands)
    if (type.getRank() != rank)
      return; // cat takes empty tensors of one dim, too
  for (int64_t i = 0; i < rank; ++i)
    if (isNew)
      dims[i] = i < along ? i : i + 1;
    else if (i != along)
      dims[i] = i;
  addEach(op, dims, cuts);
  addPartial(op, cuts);
}
