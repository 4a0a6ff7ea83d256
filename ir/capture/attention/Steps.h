//===- Steps.h - Tensors whose rows are constant in pieces ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A causal mask of a million by a million positions is a million rows of two
// pieces. Operators on elements work on pieces as they do on elements, by
// LibTorch's own kernels, so that what is said of a mask is exact at any size.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_ATTENTION_STEPS_H
#define FSDP_IR_CAPTURE_ATTENTION_STEPS_H

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace fsdp::attention {

/// A tensor of at least one dim, on the CPU. Piece p of a row has the columns
/// from where piece p - 1 ends, or 0, to `ends[p]`, and one value.
struct Steps {
  std::vector<int64_t> sizes; ///< of the tensor
  /// [..., rows, pieces], i64, never falling along pieces, the last the number
  /// of columns; sizes of 1 stand for all of their dim. As many dims as `sizes`
  /// has, one more if that is one.
  at::Tensor ends;
  at::Tensor values; ///< of the tensor's dtype, in the sizes of `ends`

  int64_t columns() const { return sizes.back(); }
};

/// More pieces a row than this are none.
inline constexpr int64_t kMaxPieces = 16;

/// The same number, a tensor of one element, everywhere.
Steps makeConstant(std::vector<int64_t> sizes, const at::Tensor &number);

/// `rows`, whose last size is 1, repeated along `columns` columns.
Steps repeatRows(const at::Tensor &rows, int64_t columns);

/// Nothing if a row has too many pieces.
std::optional<Steps> fromDense(const at::Tensor &dense);

/// "gt" for "lt": what compares the same with operands exchanged; empty for
/// what is no comparison.
std::string_view turnCompare(std::string_view compare);

/// Whether `compare` (lt, le, gt, ge, eq or ne, as an operator is called) holds
/// between rows [..., rows, 1] and columns [..., 1, columns] that never fall:
/// `compare(row, column)`. Nothing for others.
std::optional<Steps> compareSorted(std::string_view compare,
                                   const at::Tensor &rows,
                                   const at::Tensor &columns,
                                   std::vector<int64_t> sizes);

/// What `compute` makes of the operands' values, element by element, in tensors
/// of equal sizes. Sizes of operands broadcast to `sizes`.
std::optional<Steps>
combine(std::span<const Steps *const> operands, std::vector<int64_t> sizes,
        const std::function<at::Tensor(std::vector<at::Tensor>)> &compute);

/// The tensor but for 0 above (`isUpper` false) or below a diagonal, as triu
/// and tril have it.
std::optional<Steps> cutDiagonally(const Steps &steps, int64_t diagonal,
                                   bool isUpper);

/// Columns from `start` up to `end`.
Steps sliceColumns(const Steps &steps, int64_t start, int64_t end);

/// The tensor's rows of these numbers, whole: [..., rows.size(), columns].
at::Tensor expandRows(const Steps &steps, const at::Tensor &rows);

} // namespace fsdp::attention

#endif // FSDP_IR_CAPTURE_ATTENTION_STEPS_H
