//===- Access.cpp - Where a kernel's operands lie -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/Access.h"

#include "llvm/ADT/STLExtras.h"

using namespace fsdp;
using llvm::ArrayRef;
using llvm::SmallVector;

/// As few dims as possible, none of size 1.
static AccessDims collapse(ArrayRef<AccessDim> dims) {
  AccessDims few;
  for (AccessDim dim : dims) {
    if (dim.size == 1)
      continue;
    if (!few.empty() && few.back().stride == dim.stride * dim.size)
      few.back() = {few.back().size * dim.size, dim.stride};
    else
      few.push_back(dim);
  }
  return few;
}

std::optional<Access> fsdp::findAccess(ArrayRef<AccessDim> dims,
                                       int64_t columns) {
  // A row may end within a dim that lies as one with others.
  AccessDims rows = collapse(dims), inner;
  int64_t left = columns;
  while (left > 1) {
    if (rows.empty())
      return std::nullopt;
    AccessDim last = rows.pop_back_val();
    if (left % last.size == 0) {
      left /= last.size;
      inner.insert(inner.begin(), last);
    } else if (last.size % left == 0) {
      inner.insert(inner.begin(), {left, last.stride});
      rows.push_back({last.size / left, last.stride * left});
      left = 1;
    } else {
      return std::nullopt;
    }
  }
  inner = collapse(inner);
  if (inner.size() > 1)
    return std::nullopt;
  Access access;
  access.rows = collapse(rows);
  if (!inner.empty() && inner.front().stride != 0) {
    access.columns = columns;
    access.columnStride = inner.front().stride;
  }
  return access;
}

Access fsdp::repeatRow(Access row, int64_t rows) {
  row.rows.clear();
  if (rows > 1)
    row.rows.push_back({rows, 0});
  return row;
}

std::optional<SmallVector<int64_t>>
fsdp::divideRows(ArrayRef<Access> accesses) {
  // How many rows are inside of each dim's borders.
  SmallVector<int64_t> borders{1};
  for (const Access &access : accesses) {
    int64_t inside = 1;
    for (AccessDim dim : llvm::reverse(access.rows))
      borders.push_back(inside *= dim.size);
  }
  llvm::sort(borders);
  borders.erase(llvm::unique(borders), borders.end());
  SmallVector<int64_t> rows;
  for (size_t i = borders.size(); i-- > 1;) {
    if (borders[i] % borders[i - 1] != 0)
      return std::nullopt;
    rows.push_back(borders[i] / borders[i - 1]);
  }
  return rows;
}

SmallVector<int64_t> fsdp::getRowStrides(const Access &access,
                                         ArrayRef<int64_t> rows) {
  SmallVector<int64_t> strides(rows.size());
  AccessDims left(access.rows);
  int64_t within = 1; // of the last dim that is left
  for (size_t i = rows.size(); i-- > 0;) {
    strides[i] = left.back().stride * within;
    within *= rows[i];
    if (within == left.back().size) {
      left.pop_back();
      within = 1;
    }
  }
  return strides;
}
