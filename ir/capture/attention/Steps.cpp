//===- Steps.cpp - Tensors whose rows are constant in pieces --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/attention/Steps.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <ATen/ExpandUtils.h>

#include <algorithm>
#include <string_view>

using namespace fsdp;
using namespace fsdp::attention;
using at::Tensor;

/// Elements of a whole tensor whose pieces are looked for together.
static constexpr int64_t kMostAtOnce = int64_t(1) << 20;

/// Sizes of rows: of one row, if the tensor has no dim for them.
static std::vector<int64_t> rowSizes(std::vector<int64_t> sizes) {
  if (sizes.size() == 1)
    sizes.insert(sizes.begin(), 1);
  return sizes;
}

/// As many dims as `sizes` has.
static Tensor giveDims(Tensor tensor, size_t dims) {
  while (size_t(tensor.dim()) < std::max<size_t>(dims, 2))
    tensor = tensor.unsqueeze(0);
  return tensor;
}

/// Whether each number of a row differs from the next one; the last does.
static Tensor findLast(const Tensor &rows) {
  Tensor isLast = at::ones_like(rows, at::kBool);
  int64_t others = rows.size(-1) - 1;
  isLast.narrow(-1, 0, others)
      .copy_(rows.narrow(-1, 0, others) != rows.narrow(-1, 1, others));
  return isLast;
}

/// Puts pieces of equal values together and drops such of no columns.
static std::optional<Steps> tidy(std::vector<int64_t> sizes, Tensor ends,
                                 Tensor values) {
  // Whether a piece is the last of those with its value, itself not empty.
  int64_t pieces = ends.size(-1);
  Tensor begins = at::cat(
      {at::zeros_like(ends.narrow(-1, 0, 1)), ends.narrow(-1, 0, pieces - 1)},
      -1);
  // An empty piece takes the value of the one before it that is not, so that
  // it is one with that.
  for (int64_t i = 1; i < pieces; ++i) {
    Tensor isEmpty = ends.select(-1, i) == begins.select(-1, i);
    values.select(-1, i).copy_(
        at::where(isEmpty, values.select(-1, i - 1), values.select(-1, i)));
  }
  // Empty ones in front take that of the first that is not.
  for (int64_t i = pieces - 1; i-- > 0;) {
    Tensor isEmpty = ends.select(-1, i) == 0;
    values.select(-1, i).copy_(
        at::where(isEmpty, values.select(-1, i + 1), values.select(-1, i)));
  }
  Tensor isLast = findLast(values);
  int64_t most = isLast.sum(-1).max().item<int64_t>();
  if (most > kMaxPieces)
    return std::nullopt;
  // Kept pieces in front, in order; the rest repeats the last piece.
  Tensor order = std::get<1>(isLast.logical_not().to(at::kByte).sort(
      /*stable=*/std::optional<bool>(true), -1));
  Tensor kept = isLast.sum(-1, /*keepdim=*/true);
  Tensor place = at::arange(most).expand_as(order.narrow(-1, 0, most));
  Tensor from = order.gather(-1, at::minimum(place, kept - 1));
  return Steps{std::move(sizes), ends.gather(-1, from),
               values.gather(-1, from)};
}

Steps attention::makeConstant(std::vector<int64_t> sizes,
                              const Tensor &number) {
  std::vector<int64_t> one(std::max<size_t>(sizes.size(), 2), 1);
  Tensor ends = at::full(one, sizes.back(), at::kLong);
  return {std::move(sizes), ends, number.reshape(one)};
}

Steps attention::repeatRows(const Tensor &rows, int64_t columns) {
  std::vector<int64_t> sizes = rows.sizes().vec();
  sizes.back() = columns;
  Tensor values = giveDims(rows, sizes.size());
  return {sizes,
          at::full(std::vector<int64_t>(values.dim(), 1), columns, at::kLong)
              .expand_as(values),
          values};
}

/// By parts of the rows: what is computed of an element takes 30 bytes.
static std::optional<Steps> fromParts(const Tensor &dense) {
  std::vector<Tensor> ends, values;
  int64_t most = 0;
  for (const Tensor &part : dense.split(
           std::max<int64_t>(1, dense.size(-2) * kMostAtOnce / dense.numel()),
           -2)) {
    std::optional<Steps> steps = fromDense(part);
    if (!steps)
      return std::nullopt;
    most = std::max(most, steps->ends.size(-1));
    ends.push_back(steps->ends);
    values.push_back(steps->values);
  }
  // The last piece once more where a part has fewer.
  auto pad = [&](std::vector<Tensor> &parts) {
    for (Tensor &part : parts) {
      std::vector<int64_t> sizes = part.sizes().vec();
      sizes.back() = most - sizes.back();
      part = at::cat(
          {part, part.narrow(-1, part.size(-1) - 1, 1).expand(sizes)}, -1);
    }
    return at::cat(parts, -2);
  };
  return Steps{dense.sizes().vec(), pad(ends), pad(values)};
}

std::optional<Steps> attention::fromDense(const Tensor &dense) {
  if (dense.dim() > 1 && dense.size(-2) > 1 && dense.numel() > kMostAtOnce)
    return fromParts(dense);
  Tensor rows = giveDims(dense, dense.dim());
  int64_t columns = rows.size(-1);
  if (columns == 0 || rows.numel() == 0)
    return std::nullopt;
  Tensor isLast = findLast(rows);
  int64_t most = isLast.sum(-1).max().item<int64_t>();
  if (most > kMaxPieces)
    return std::nullopt;
  // Positions behind which a piece ends, the last column for those not needed.
  Tensor place = at::where(isLast, at::arange(columns), columns - 1);
  Tensor last = std::get<0>(place.sort(-1)).narrow(-1, 0, most);
  return Steps{dense.sizes().vec(), last + 1, rows.gather(-1, last)};
}

std::string_view attention::turnCompare(std::string_view compare) {
  static const std::pair<std::string_view, std::string_view> turned[] = {
      {"lt", "gt"}, {"le", "ge"}, {"gt", "lt"},
      {"ge", "le"}, {"eq", "eq"}, {"ne", "ne"}};
  for (auto [from, to] : turned)
    if (compare == from)
      return to;
  return {};
}

std::optional<Steps> attention::compareSorted(std::string_view compare,
                                              const Tensor &rows,
                                              const Tensor &columns,
                                              std::vector<int64_t> sizes) {
  at::ScalarType dtype = at::result_type(rows, columns);
  if (dtype == at::kBool)
    dtype = at::kByte;
  Tensor row = giveDims(rows.to(dtype), sizes.size()).squeeze(-1);
  Tensor column = giveDims(columns.to(dtype), sizes.size()).squeeze(-2);
  int64_t count = column.size(-1);
  if (count > 1 &&
      (column.narrow(-1, 1, count - 1) < column.narrow(-1, 0, count - 1))
          .any()
          .item<bool>())
    return std::nullopt;
  if (at::isFloatingType(dtype) &&
      (row.isnan().any() | column.isnan().any()).item<bool>())
    return std::nullopt;
  // Leading dims of both.
  std::vector<int64_t> lead =
      at::infer_size(row.sizes().slice(0, row.dim() - 1),
                     column.sizes().slice(0, column.dim() - 1));
  auto widen = [&](const Tensor &tensor) {
    std::vector<int64_t> wide = lead;
    wide.push_back(tensor.size(-1));
    return tensor.expand(wide).contiguous();
  };
  row = widen(row);
  column = widen(column);
  // Columns below the row's number, and those not above it.
  Tensor below = at::searchsorted(column, row);
  Tensor upTo = at::searchsorted(column, row, /*out_int32=*/false,
                                 /*right=*/true);
  Tensor all = at::full_like(below, count);
  bool outside = compare == "ne" || compare == "gt" || compare == "ge";
  // `compare(row, column)` holds for columns in the middle of three pieces, or
  // outside of it.
  Tensor first, second;
  if (compare == "lt") { // columns above
    first = upTo, second = all;
  } else if (compare == "le") { // columns not below
    first = below, second = all;
  } else if (compare == "gt") { // columns below
    first = below, second = all;
  } else if (compare == "ge") { // columns not above
    first = upTo, second = all;
  } else if (compare == "eq" || compare == "ne") {
    first = below, second = upTo;
  } else {
    return std::nullopt;
  }
  Tensor ends = at::stack({first, second, all}, -1);
  Tensor values = at::full({3}, outside, at::kBool);
  values[1] = !outside;
  return tidy(std::move(sizes), ends, values.expand_as(ends).clone());
}

std::optional<Steps>
attention::combine(std::span<const Steps *const> operands,
                   std::vector<int64_t> sizes,
                   const std::function<Tensor(std::vector<Tensor>)> &compute) {
  size_t dims = std::max<size_t>(sizes.size(), 2);
  // Sizes of the operands' rows together: 1 where none of them varies.
  std::vector<int64_t> rows(dims - 1, 1);
  std::vector<std::pair<Tensor, Tensor>> each;
  for (const Steps *operand : operands) {
    bool repeats = operand->columns() == 1 && sizes.back() != 1;
    Tensor ends = giveDims(operand->ends, dims);
    each.emplace_back(repeats ? at::full_like(ends, sizes.back()) : ends,
                      giveDims(operand->values, dims));
    rows = at::infer_size(rows, ends.sizes().slice(0, dims - 1));
  }
  auto widen = [&](const Tensor &tensor) {
    std::vector<int64_t> wide = rows;
    wide.push_back(tensor.size(-1));
    return tensor.expand(wide).contiguous();
  };
  std::vector<Tensor> allEnds;
  for (auto &[ends, values] : each) {
    ends = widen(ends);
    values = widen(values);
    allEnds.push_back(ends);
  }
  Tensor ends = std::get<0>(at::cat(allEnds, -1).sort(-1));
  std::vector<Tensor> given;
  for (auto &[own, values] : each)
    // The first piece that ends there or behind.
    given.push_back(values.gather(
        -1, at::searchsorted(own, ends).clamp_max(own.size(-1) - 1)));
  return tidy(std::move(sizes), ends, compute(std::move(given)).contiguous());
}

std::optional<Steps> attention::cutDiagonally(const Steps &steps,
                                              int64_t diagonal, bool isUpper) {
  if (steps.sizes.size() < 2)
    return std::nullopt;
  int64_t rows = steps.sizes[steps.sizes.size() - 2];
  // Where the part above the diagonal, the diagonal with it, begins.
  int64_t shift = isUpper ? diagonal : diagonal + 1;
  Tensor begin = (at::arange(rows) + shift).clamp(0, steps.columns());
  Tensor ends = at::stack({begin, at::full_like(begin, steps.columns())}, -1);
  Tensor isKept = at::full({2}, !isUpper, at::kBool);
  isKept[1] = isUpper;
  std::vector<int64_t> plane = {rows, steps.columns()};
  Steps part{plane, ends, isKept.expand_as(ends)};
  const Steps *operands[] = {&steps, &part};
  return combine(operands, steps.sizes, [](std::vector<Tensor> given) {
    return at::where(given[1], given[0], at::zeros_like(given[0]));
  });
}

Steps attention::sliceColumns(const Steps &steps, int64_t start, int64_t end) {
  std::vector<int64_t> sizes = steps.sizes;
  sizes.back() = end - start;
  std::optional<Steps> sliced = tidy(
      sizes, (steps.ends - start).clamp(0, end - start), steps.values.clone());
  return *sliced; // no more pieces than before
}

Tensor attention::expandRows(const Steps &steps, const Tensor &rows) {
  size_t dims = rowSizes(steps.sizes).size();
  Tensor ends = giveDims(steps.ends, dims),
         values = giveDims(steps.values, dims);
  if (ends.size(-2) != 1) {
    ends = ends.index_select(-2, rows);
    values = values.index_select(-2, rows);
  }
  std::vector<int64_t> wide = ends.sizes().vec();
  wide.back() = steps.columns();
  Tensor place = at::arange(steps.columns()).expand(wide).contiguous();
  return values.expand(ends.sizes())
      .gather(-1, at::searchsorted(ends.contiguous(), place, false, true));
}
