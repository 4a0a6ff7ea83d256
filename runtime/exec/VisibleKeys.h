//===- VisibleKeys.h - Which keys a mask leaves to see ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A mask that depends on data (documents packed into rows, padding) is known in
// the step alone. Its numbers say then which queries see which keys.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_EXEC_VISIBLEKEYS_H
#define FSDP_RUNTIME_EXEC_VISIBLEKEYS_H

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace fsdp {

/// Queries next to each other, and keys beside which none of them sees any: at
/// least one.
struct VisibleBlock {
  int64_t firstQuery, endQuery;
  int64_t firstKey, endKey;

  bool operator==(const VisibleBlock &) const = default;
};

/// Whether what is added to scores is read: a tensor of two or four dims
/// ([batch or 1, heads or 1, queries, keys]), f32, f64, bf16 or f16, on the
/// CPU.
bool hasVisibleKeys(const at::Tensor &mask);

/// For each entry of the mask's batch the blocks, which cover all queries and
/// multiply as little as is worth their number: one of all keys where that is
/// hardly less than all. A key is not seen where -inf is added to its score, or
/// the least number of the dtype and the query sees another: beside that its
/// weight is 0. An entry's blocks depend on nothing but its own numbers.
std::vector<std::vector<VisibleBlock>> findVisible(const at::Tensor &mask);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_VISIBLEKEYS_H
