//===- Localize.cpp - An operator on parts --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/partition/Localize.h"

#include "passes/analysis/TensorBuilders.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace fsdp;

RankedTensorType fsdp::getPartType(RankedTensorType whole, Place place,
                                   int64_t ranks) {
  SmallVector<int64_t> shape(whole.getShape());
  if (place.isPart())
    shape[place.dim] /= ranks;
  return getDenseType(whole, shape);
}

//===----------------------------------------------------------------------===//
// Static arguments
//===----------------------------------------------------------------------===//

/// The list `name` with entry `at` divided by `ranks`, unless it is left to the
/// operator.
static ArrayAttr divideEntry(const WholeOp &op, StringRef name, int64_t at,
                             int64_t ranks) {
  SmallVector<int64_t> list = *op.getInts(name);
  if (list[at] >= 0)
    list[at] /= ranks;
  return Builder(op.op->getContext()).getI64ArrayAttr(list);
}

/// A border between blocks, counted from either end, or one behind all rows.
static int64_t toPart(int64_t rows, int64_t ranks) {
  return rows == std::numeric_limits<int64_t>::max() ? rows : rows / ranks;
}

/// The dim in blocks whose blocks are split, sliced or joined by `cut`; none if
/// it is cut otherwise.
static std::optional<int64_t> getDimOfBlocks(const WholeOp &op,
                                             const Cut &cut) {
  bool joins = op.getName() == "aten.slice_backward";
  if (!joins && !llvm::is_contained({"aten.slice.Tensor", "aten.split.Tensor",
                                     "aten.split_with_sizes"},
                                    op.getName()))
    return std::nullopt;
  RankedTensorType all = joins ? op.results.front() : op.operands.front();
  Place large = joins ? cut.results.front() : cut.operands.front();
  int64_t along = *op.getDim("dim", all.getRank());
  if (large.dim != along || large.blocks == 1)
    return std::nullopt;
  return along;
}

DictionaryAttr fsdp::localizeStatics(const WholeOp &op, const Cut &cut,
                                     int64_t ranks) {
  if (!cut.results.front().isPart())
    return op.property;
  int64_t result = cut.results.front().dim;
  StringRef name = op.getName();
  NamedAttrList statics(op.property);
  Builder builder(op.op->getContext());
  if (std::optional<int64_t> along = getDimOfBlocks(op, cut)) {
    if (name == "aten.slice_backward")
      statics.set("input_sizes", divideEntry(op, "input_sizes", *along, ranks));
    for (StringRef bound : {"start", "end", "split_size"})
      if (std::optional<int64_t> rows = op.getInt(bound))
        statics.set(bound, builder.getI64IntegerAttr(toPart(*rows, ranks)));
    if (std::optional<SmallVector<int64_t>> sizes = op.getInts("split_sizes")) {
      for (int64_t &size : *sizes)
        size /= ranks;
      statics.set("split_sizes", builder.getI64ArrayAttr(*sizes));
    }
  } else if (llvm::is_contained(
                 {"aten.view", "aten._unsafe_view", "aten.expand"}, name)) {
    statics.set("size", divideEntry(op, "size", result, ranks));
  } else if ((result == 2 && name.contains("scaled_dot_product") &&
              op.getInt("max_q")) ||
             (result == 1 && findWindow(op)) ||
             findDocumentsPlace(op) == cut.results.front()) {
    statics.set("max_q",
                builder.getI64IntegerAttr(*op.getInt("max_q") / ranks));
    if (isRing(op, cut))
      statics.set("max_k",
                  builder.getI64IntegerAttr(*op.getInt("max_k") / ranks));
  } else if (name == "aten.embedding_dense_backward" && result == 0) {
    statics.set("num_weights",
                builder.getI64IntegerAttr(*op.getInt("num_weights") / ranks));
  } else if (name == "aten.slice_backward" || name == "aten.select_backward") {
    statics.set("input_sizes", divideEntry(op, "input_sizes", result, ranks));
  } else if (name == "aten.slice.Tensor" &&
             op.getDim("dim", op.operands.front().getRank()) == result) {
    // All of the dim: of the part, too.
    if (op.getInt("end"))
      statics.set("end", builder.getI64IntegerAttr(
                             op.results.front().getDimSize(result) / ranks));
  }
  return statics.getDictionary(op.op->getContext());
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Strides of a view of another shape, as at::detail::computeStride finds them;
/// none if there are none.
static std::optional<SmallVector<int64_t>>
viewStrides(RankedTensorType from, ArrayRef<int64_t> shape) {
  if (from.getNumElements() == 0)
    return aten::getContiguousStrides(shape);
  SmallVector<int64_t> strides = aten::getStrides(from);
  SmallVector<int64_t> result(shape.size(), 1);
  int64_t view = int64_t(shape.size()) - 1;
  int64_t rank = from.getRank();
  int64_t base = rank != 0 ? strides[rank - 1] : 1;
  int64_t elements = 1, viewed = 1;
  for (int64_t dim = rank - 1; dim >= 0; --dim) {
    elements *= from.getDimSize(dim);
    bool endsChunk = dim == 0 || (from.getDimSize(dim - 1) != 1 &&
                                  strides[dim - 1] != elements * base);
    if (!endsChunk)
      continue;
    while (view >= 0 && (viewed < elements || shape[view] == 1)) {
      result[view] = viewed * base;
      viewed *= shape[view];
      --view;
    }
    if (viewed != elements)
      return std::nullopt;
    if (dim > 0) {
      base = strides[dim - 1];
      elements = viewed = 1;
    }
  }
  if (view >= 0)
    return std::nullopt;
  return result;
}

/// Strides of the same bytes as elements of another type; none unless these lie
/// one behind the other in rows that begin at whole ones.
static std::optional<SmallVector<int64_t>>
stridesOfRetyped(const WholeOp &op, RankedTensorType from) {
  SmallVector<int64_t> strides = aten::getStrides(from);
  int64_t own = aten::getElementBytes(from.getElementType());
  int64_t bytes = aten::getElementBytes(op.results.front().getElementType());
  if (own == bytes)
    return strides;
  bool splits = op.getName() == "aten.view_as_real"; // a last dim of its own
  if (!splits) {
    if (strides.empty() || strides.back() != 1)
      return std::nullopt;
    strides.pop_back();
  }
  for (int64_t &stride : strides) {
    if (stride * own % bytes != 0)
      return std::nullopt;
    stride = stride * own / bytes;
  }
  if (splits || op.getName() == "aten.view.dtype")
    strides.push_back(1);
  return strides;
}

/// Strides of `shape`, a view of `from` by an operator that keeps, drops, adds
/// or reorders dims; none if it is no such operator, or if it cannot be.
static std::optional<SmallVector<int64_t>>
stridesOfView(const WholeOp &op, RankedTensorType from,
              ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides = aten::getStrides(from);
  StringRef name = op.getName();
  int64_t rank = from.getRank();
  if (isRetyping(name))
    return stridesOfRetyped(op, from);
  // Strides that the operator is told are those of the whole.
  if (name == "aten.as_strided" || name == "aten._reshape_alias")
    return std::nullopt;
  if (name == "aten.diagonal") {
    int64_t one = *op.getDim("dim1", rank), other = *op.getDim("dim2", rank);
    int64_t both = strides[one] + strides[other];
    strides.erase(strides.begin() + std::max(one, other));
    strides.erase(strides.begin() + std::min(one, other));
    strides.push_back(both);
    return strides;
  }
  if (name == "aten.unfold") {
    int64_t dim = *op.getDim("dimension", rank);
    strides.push_back(strides[dim]);
    strides[dim] *= *op.getInt("step");
    return strides;
  }
  if (name == "aten.view" || name == "aten._unsafe_view")
    return viewStrides(from, shape);
  if (name == "aten.unsqueeze") {
    int64_t at = *op.getDim("dim", rank + 1);
    strides.insert(strides.begin() + at,
                   at == rank ? 1 : from.getDimSize(at) * strides[at]);
    return strides;
  }
  if (name == "aten.slice.Tensor") {
    strides[*op.getDim("dim", rank)] *= op.getInt("step").value_or(1);
    return strides;
  }
  if (name == "aten.expand") {
    SmallVector<int64_t> expanded(shape.size(), 0);
    int64_t front = int64_t(shape.size()) - rank;
    for (int64_t i = int64_t(shape.size()) - 1; i >= 0; --i) {
      bool isOwn = i >= front;
      int64_t size = isOwn ? from.getDimSize(i - front) : 1;
      int64_t stride = isOwn ? strides[i - front]
                       : i + 1 < int64_t(shape.size())
                           ? shape[i + 1] * expanded[i + 1]
                           : 1;
      expanded[i] = size == shape[i] ? stride : 0;
    }
    return expanded;
  }
  if (llvm::is_contained(
          {"aten.split.Tensor", "aten.split_with_sizes", "aten.chunk"}, name))
    return strides;
  SmallVector<int64_t> kept(shape.size());
  for (auto [own, to] : llvm::zip_equal(strides, mapDims(op)))
    if (to != kNoDim)
      kept[to] = own;
  return kept;
}

FailureOr<SmallVector<Type>>
fsdp::localizeResults(const WholeOp &op, const Cut &cut, int64_t ranks,
                      ArrayRef<RankedTensorType> operands) {
  SmallVector<Type> types;
  for (auto [i, whole] : llvm::enumerate(op.results)) {
    if (!whole) {
      types.push_back(op.op->getResult(i).getType());
      continue;
    }
    RankedTensorType part = getPartType(whole, cut.results[i], ranks);
    if (aten::getViewSource(op.op->getResult(i))) {
      std::optional<SmallVector<int64_t>> strides =
          stridesOfView(op, operands.front(), part.getShape());
      if (!strides)
        return failure();
      part = aten::getTensorType(part.getShape(), *strides,
                                 whole.getElementType());
    }
    types.push_back(part);
  }
  return types;
}
