//===- Access.h - Where a kernel's operands lie -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_KERNELS_ACCESS_H
#define FSDP_PASSES_KERNELS_ACCESS_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>

namespace fsdp {

/// A dim of a tensor: its size and its stride, in elements.
struct AccessDim {
  int64_t size, stride;
  bool operator==(const AccessDim &) const = default;
};
using AccessDims = llvm::SmallVector<AccessDim, 4>;

/// The elements of an operand, by row and column. No two dims of the rows could
/// be one, none is of size 1: equal elements give equal accesses.
struct Access {
  AccessDims rows;          ///< outermost first; the product is that of rows
  int64_t columns = 1;      ///< 1 also where all columns are the same element
  int64_t columnStride = 1; ///< 1 where there is one column
  bool operator==(const Access &) const = default;
};

/// Of elements in the order of `dims` (outermost first), as rows of `columns`;
/// nothing where those of a row lie in no even distance, or a row ends where no
/// dim does and none can be divided.
std::optional<Access> findAccess(llvm::ArrayRef<AccessDim> dims,
                                 int64_t columns);

/// One row for all of `rows`.
Access repeatRow(Access row, int64_t rows);

/// The sizes of dims of rows by which each of `accesses` can be said, outermost
/// first; nothing if there are none.
std::optional<llvm::SmallVector<int64_t>>
divideRows(llvm::ArrayRef<Access> accesses);

/// The strides of an access along dims that divideRows() gave.
llvm::SmallVector<int64_t> getRowStrides(const Access &access,
                                         llvm::ArrayRef<int64_t> rows);

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_ACCESS_H
