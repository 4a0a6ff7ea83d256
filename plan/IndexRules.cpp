//===- IndexRules.cpp - Indices that kernels look at themselves -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// On the CPU these kernels refuse an index that is out of range. On a GPU they
// end the process's use of the device, and name nobody.
//
//===----------------------------------------------------------------------===//

#include "plan/Operators.h"

#include <map>
#include <set>

using namespace fsdp;

namespace {

/// How many places there are.
enum class Count {
  rows,    ///< the first dim of the first operand
  dim,     ///< the dim of the first operand that the second one names
  number,  ///< the third operand
  classes, ///< the channels of the first operand; the fifth is also allowed
};

struct IndexRule {
  size_t argument; ///< of the indices
  Count count;
};

const std::map<std::string, IndexRule, std::less<>> kIndexRules = {
    {"aten::embedding", {1, Count::rows}},
    {"aten::embedding_dense_backward", {1, Count::number}},
    {"aten::index_select", {2, Count::dim}},
    {"aten::gather", {2, Count::dim}},
    {"aten::scatter.src", {2, Count::dim}},
    {"aten::scatter.value", {2, Count::dim}},
    {"aten::scatter_add", {2, Count::dim}},
    {"aten::scatter_reduce.two", {2, Count::dim}},
    {"aten::index_add", {2, Count::dim}},
    {"aten::index_copy", {2, Count::dim}},
    {"aten::nll_loss_forward", {1, Count::classes}},
    {"aten::nll_loss2d_forward", {1, Count::classes}},
};

/// Of a number among the operands.
std::optional<int64_t> integerAt(const CallOperands &operands, size_t number) {
  const std::vector<int64_t> &integers = operands.integers(number);
  if (integers.size() != 1)
    return std::nullopt;
  return integers[0];
}

std::optional<int64_t> countPlaces(Count count, const CallOperands &operands) {
  const plan::ValueT *into = operands.tensor(0);
  if (!into)
    return std::nullopt;
  const std::vector<int64_t> &shape = into->shape;
  auto rank = static_cast<int64_t>(shape.size());
  switch (count) {
  case Count::rows:
    return rank > 0 ? std::optional(shape[0]) : std::nullopt;
  case Count::number:
    return integerAt(operands, 2);
  case Count::classes:
    if (rank == 0)
      return std::nullopt;
    return shape[rank == 1 ? 0 : 1];
  case Count::dim:
    std::optional<int64_t> dim = integerAt(operands, 1);
    if (!dim || *dim < -rank || *dim >= rank)
      return std::nullopt;
    return shape[static_cast<size_t>(*dim < 0 ? *dim + rank : *dim)];
  }
  return std::nullopt;
}

/// A list with an operand for each of the first dims; negative ones count from
/// the end.
std::vector<IndexOperand> indexEachDim(const CallOperands &operands) {
  const plan::ValueT *into = operands.tensor(0);
  std::vector<const plan::ValueT *> list = operands.tensors(1);
  // A mask stands for as many dims as it has.
  for (const plan::ValueT *each : list)
    if (each && each->dtype != plan::DType::i64 &&
        each->dtype != plan::DType::i32)
      return {};
  std::vector<IndexOperand> indices;
  for (size_t dim = 0; into && dim < list.size() && dim < into->shape.size();
       ++dim)
    if (list[dim])
      indices.push_back(
          {1, -into->shape[dim], into->shape[dim] - 1, std::nullopt, dim});
  return indices;
}

const std::set<std::string, std::less<>> kIndexEachDim = {
    "aten::index.Tensor", "aten::_unsafe_index.Tensor", "aten::index_put",
    "aten::_unsafe_index_put"};

} // namespace

std::vector<IndexOperand>
fsdp::checkedIndexOperands(const std::string &op,
                           const CallOperands &operands) {
  if (kIndexEachDim.contains(op))
    return indexEachDim(operands);
  auto rule = kIndexRules.find(op);
  if (rule == kIndexRules.end() || !operands.tensor(rule->second.argument))
    return {};
  std::optional<int64_t> count = countPlaces(rule->second.count, operands);
  if (!count)
    return {};
  IndexOperand index{rule->second.argument, 0, *count - 1, std::nullopt};
  if (rule->second.count == Count::classes)
    index.other = integerAt(operands, 4);
  return {index};
}
