//===- CutsReductions.cpp - Cuts of sums, softmax, norms, embeddings ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/partition/Cuts.h"

#include "passes/analysis/LossReduction.h"

#include <numeric>

using namespace mlir;
using namespace fsdp;

void cuts::addReductions(const WholeOp &op, std::vector<Cut> &cuts) {
  RankedTensorType from = op.operands.front();
  int64_t rank = from.getRank();
  SmallVector<bool> isReduced(rank, false);
  std::optional<SmallVector<int64_t>> dims = op.getDims("dim", rank);
  if (!dims || dims->empty())
    isReduced.assign(rank, true);
  else
    for (int64_t dim : *dims)
      isReduced[dim] = true;
  auto keeps = dyn_cast_or_null<BoolAttr>(op.getStatic("keepdim"));
  bool keepsDims = keeps && keeps.getValue();
  StringRef name = op.getName();
  bool isSum = name == "aten.sum" || name == "aten.sum.dim_IntList";
  int64_t next = 0;
  for (int64_t dim = 0; dim < rank; ++dim) {
    int64_t to = keepsDims ? dim : next;
    if (!isReduced[dim])
      ++next;
    if (isReduced[dim] && !isSum)
      continue;
    Cut cut = whole(op);
    cut.operands[0] = dim;
    cut.results.assign(op.results.size(),
                       isReduced[dim] ? kPartialPlace : Place(to));
    cuts.push_back(cut);
  }
  if (isSum)
    addPartial(op, cuts);
}

void cuts::addGreatest(const WholeOp &op, std::vector<Cut> &cuts) {
  auto along = op.property ? op.property.getAs<IntegerAttr>("dim") : nullptr;
  for (int64_t dim = 0; dim < op.operands.front().getRank(); ++dim) {
    bool isKept = along && along.getInt() != dim;
    cuts.push_back({{dim}, {isKept ? Place(dim) : kGreatestPlace}});
  }
}

void cuts::addCodes(const WholeOp &op, const Pieces &pieces,
                    std::vector<Cut> &cuts) {
  RankedTensorType numbers = op.results.front();
  int64_t part = numbers.getNumElements() / pieces.ranks;
  int64_t row = cast<DequantizeOp>(op.op).getForm().getRowElements();
  if (!pieces.isContext && numbers.getRank() > 0 &&
      numbers.getDimSize(0) % pieces.ranks == 0 && part % row == 0)
    cuts.push_back({{0}, {0}});
}

/// What works along one dim leaves the others alone.
void cuts::addAlongOthers(const WholeOp &op, std::vector<Cut> &cuts) {
  int64_t rank = op.operands.front().getRank();
  for (RankedTensorType type : op.operands)
    if (type.getRank() != rank)
      return;
  SmallVector<int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  if (std::optional<SmallVector<int64_t>> along =
          op.getDims(op.getName() == "aten.flip" ? "dims" : "dim", rank))
    for (int64_t dim : *along)
      dims[dim] = kNoDim;
  addEach(op, dims, cuts);
}

/// Rows are normalised one by one; weights' gradients are sums over rows.
void cuts::addNorms(const WholeOp &op, std::vector<Cut> &cuts) {
  std::optional<SmallVector<int64_t>> normalized =
      op.getInts("normalized_shape");
  bool isBackward = op.getName().ends_with("_backward");
  SmallVector<StringRef> names = op.getOperandNames();
  const auto *input = llvm::find(names, "input");
  int64_t rows = op.operands[input - names.begin()].getRank() -
                 int64_t(normalized->size());
  for (int64_t dim = 0; dim < rows; ++dim) {
    Cut cut = whole(op);
    for (auto [i, name] : llvm::enumerate(names))
      if (name != "weight" && name != "bias")
        cut.operands[i] = dim;
    for (auto [i, type] : llvm::enumerate(op.results))
      if (type)
        cut.results[i] = isBackward && i > 0 ? kPartialPlace : Place(dim);
    cuts.push_back(cut);
  }
}

/// Rows are scored one by one; the mean is no sum of means where rows are left
/// out
/// (`fsdp-sum-losses` makes it a quotient of sums).
void cuts::addLosses(const WholeOp &op, std::vector<Cut> &cuts) {
  int64_t reduction = op.getInt("reduction").value_or(MeanReduction);
  bool isBackward = op.getName().ends_with("_backward");
  SmallVector<StringRef> names = op.getOperandNames();
  const auto *input = llvm::find(names, "self");
  if (op.operands[input - names.begin()].getRank() != 2 ||
      (!isBackward && reduction != SumReduction && reduction != NoReduction))
    return;
  Cut cut = whole(op);
  for (auto [i, name] : llvm::enumerate(names))
    if (name == "self" || name == "target" ||
        (name == "grad_output" && reduction == NoReduction))
      cut.operands[i] = 0;
  cut.results[0] =
      isBackward || reduction == NoReduction ? Place(0) : kPartialPlace;
  if (!isBackward)
    cut.results[1] = kPartialPlace; // the sum of weights
  cuts.push_back(cut);
}

/// What another axis exchanges: its dim stays whole, the others are as they
/// were.
void cuts::addExchanges(const WholeOp &op, std::vector<Cut> &cuts) {
  auto dim = op.property ? op.property.getAs<IntegerAttr>("dim") : nullptr;
  SmallVector<int64_t> dims(op.operands.front().getRank());
  std::iota(dims.begin(), dims.end(), 0);
  if (dim)
    dims[dim.getInt()] = kNoDim;
  addEach(op, dims, cuts);
  addPartial(op, cuts);
}

bool fsdp::isLookupOfRows(Operation *op, const Cut &cut) {
  StringRef name = op->getName().getStringRef();
  return name == "aten.embedding" ? cut.operands.front() == Place(0)
                                  : name == "aten.embedding_dense_backward" &&
                                        cut.results.front() == Place(0);
}

void cuts::addEmbeddings(const WholeOp &op, std::vector<Cut> &cuts) {
  int64_t rank = op.operands[1].getRank(); // of the indices
  auto add = [&](Place first, Place index, Place to) {
    cuts.push_back({{first, index}, {to}});
  };
  if (op.getName() == "aten.embedding_dense_backward") {
    add(rank, kWholePlace, 1); // features
    // Counts of a row's uses would be those of a part.
    auto scales =
        dyn_cast_or_null<BoolAttr>(op.getStatic("scale_grad_by_freq"));
    if (scales && scales.getValue())
      return;
    add(kWholePlace, kWholePlace, 0);
    for (int64_t dim = 0; dim < rank; ++dim)
      add(dim, dim, kPartialPlace);
    return;
  }
  add(0, kWholePlace, kPartialPlace);
  add(1, kWholePlace, rank);
  for (int64_t dim = 0; dim < rank; ++dim)
    add(kWholePlace, dim, dim);
}
