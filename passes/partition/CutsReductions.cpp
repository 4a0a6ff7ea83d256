//===- CutsReductions.cpp - Cuts of sums, softmax, norms, embeddings ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/partition/Cuts.h"

using namespace mlir;
using namespace fsdp;

void cuts::addReductions(const WholeOp &op, std::vector<Cut> &cuts) {
  RankedTensorType from = op.operands.front();
  int64_t rank = from.getRank();
  SmallVector<bool> isReduced(rank, false);
  std::optional<SmallVector<int64_t>> dims = op.getInts("dim");
  if (!dims || dims->empty())
    isReduced.assign(rank, true);
  else
    for (int64_t dim : *dims)
      isReduced[dim < 0 ? dim + rank : dim] = true;
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
    cut.results.assign(op.results.size(), isReduced[dim] ? kPartialPlace : to);
    cuts.push_back(cut);
  }
}

/// What works along one dim leaves the others alone.
void cuts::addAlongOthers(const WholeOp &op, std::vector<Cut> &cuts) {
  int64_t rank = op.operands.front().getRank();
  SmallVector<int64_t> along;
  if (std::optional<SmallVector<int64_t>> dims =
          op.getInts(op.getName() == "aten.flip" ? "dims" : "dim"))
    along = *dims;
  for (int64_t &dim : along)
    dim = dim < 0 ? dim + rank : dim;
  for (RankedTensorType type : op.operands)
    if (type.getRank() != rank)
      return;
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (llvm::is_contained(along, dim))
      continue;
    Cut cut;
    cut.operands.assign(op.operands.size(), dim);
    cut.results.assign(op.results.size(), dim);
    cuts.push_back(cut);
  }
}

/// Rows are normalised one by one; weights' gradients are sums over rows.
void cuts::addNorms(const WholeOp &op, std::vector<Cut> &cuts) {
  std::optional<SmallVector<int64_t>> normalized =
      op.getInts("normalized_shape");
  int64_t input = op.getOperandIndex("input");
  int64_t rows = op.operands[input].getRank() - int64_t(normalized->size());
  bool isBackward = op.getName().ends_with("_backward");
  SmallVector<StringRef> names = op.getOperandNames();
  for (int64_t dim = 0; dim < rows; ++dim) {
    Cut cut = whole(op);
    for (auto [i, name] : llvm::enumerate(names))
      if (name != "weight" && name != "bias")
        cut.operands[i] = dim;
    for (auto [i, type] : llvm::enumerate(op.results))
      if (type)
        cut.results[i] = isBackward && i > 0 ? kPartialPlace : dim;
    cuts.push_back(cut);
  }
}

void cuts::addEmbeddings(const WholeOp &op, std::vector<Cut> &cuts) {
  bool isBackward = op.getName() == "aten.embedding_dense_backward";
  int64_t other = isBackward ? 0 : -1; // the gradient among the operands
  int64_t indices = 1;
  int64_t rank = op.operands[indices].getRank();
  auto add = [&](Place first, Place index, Place to) {
    cuts.push_back({{first, index}, {to}});
  };
  if (other == 0) {
    add(rank, kWholePlace, 1); // features
    // Counts of a row's uses would be those of a part.
    auto scales =
        dyn_cast_or_null<BoolAttr>(op.getStatic("scale_grad_by_freq"));
    if (!scales || !scales.getValue())
      for (int64_t dim = 0; dim < rank; ++dim)
        add(dim, dim, kPartialPlace);
    return;
  }
  add(1, kWholePlace, rank);
  for (int64_t dim = 0; dim < rank; ++dim)
    add(kWholePlace, dim, dim);
}
