//===- Calls.h - What calls of operators say --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_ATTENTION_CALLS_H
#define FSDP_IR_CAPTURE_ATTENTION_CALLS_H

#include "ir/capture/joint/JointGraph.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace fsdp::attention {

/// Views and copies of which each row is a row of the operand, or, by `expand`,
/// of the only one.
inline const std::unordered_set<std::string_view> rowKeepers = {
    "aten::_to_copy",  "aten::_unsafe_view", "aten::alias",
    "aten::clone",     "aten::contiguous",   "aten::detach",
    "aten::expand",    "aten::lift_fresh",   "aten::lift_fresh_copy",
    "aten::unsqueeze", "aten::view",         "aten::_reshape_alias",
    "aten::squeeze"};

inline std::string_view nameOf(const capture::Node &node) {
  return node.op.operator_name().name;
}

/// Of numbers that count.
inline bool isWhole(at::ScalarType dtype) {
  return dtype == at::kLong || dtype == at::kInt;
}

inline const c10::IValue *findArgument(const capture::Node &node,
                                       const char *name) {
  std::optional<int> index = node.op.schema().argumentIndexWithName(name);
  return index && node.arguments[*index].kind == capture::Argument::Kind::Static
             ? &node.arguments[*index].value
             : nullptr;
}

/// A whole-number argument, which may be left out.
inline int64_t numberOf(const capture::Node &node, const char *name,
                        int64_t otherwise) {
  const c10::IValue *given = findArgument(node, name);
  return given && given->isInt() ? given->toInt() : otherwise;
}

/// The tensor that the first argument is; kNoValue if it is none.
inline capture::ValueId sourceOf(const capture::Node &node) {
  return node.arguments.empty() || node.arguments.front().tensors.size() != 1
             ? capture::kNoValue
             : node.arguments.front().tensors.front();
}

/// The tensor that an argument is; kNoValue if it is none.
inline capture::ValueId operandOf(const capture::Node &node, size_t argument) {
  return argument < node.arguments.size() &&
                 node.arguments[argument].tensors.size() == 1
             ? node.arguments[argument].tensors.front()
             : capture::kNoValue;
}

/// What a slice takes: elements of one dim, counted from behind.
struct SliceBounds {
  int64_t dim, start, end;
};

/// Of a tensor of these sizes; nothing if it leaves some between out.
inline std::optional<SliceBounds> readSlice(const capture::Node &node,
                                            const std::vector<int64_t> &sizes) {
  if (numberOf(node, "step", 1) != 1)
    return std::nullopt;
  int64_t rank = int64_t(sizes.size()), dim = numberOf(node, "dim", 0);
  int64_t size = sizes[size_t(dim < 0 ? dim + rank : dim)];
  auto bound = [&](const char *argument, int64_t otherwise) {
    int64_t place = numberOf(node, argument, otherwise);
    return std::clamp<int64_t>(place < 0 ? place + size : place, 0, size);
  };
  return SliceBounds{dim < 0 ? dim : dim - rank, bound("start", 0),
                     bound("end", size)};
}

/// Sizes without those of 1 in front of the last two.
inline std::vector<int64_t> withoutOnes(const std::vector<int64_t> &sizes) {
  std::vector<int64_t> rest;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1 || i + 2 >= sizes.size())
      rest.push_back(sizes[i]);
  return rest;
}

/// The tensor with other sizes of 1 in front of its last two.
inline at::Tensor moveOnes(const at::Tensor &tensor,
                           const std::vector<int64_t> &from,
                           const std::vector<int64_t> &to) {
  // Dims of the tensor stand for those of `from`, or are 1.
  std::vector<int64_t> sizes(std::max<size_t>(to.size(), 2), 1);
  size_t next = 0, dims = from.size();
  auto lead = [](size_t count) { return count < 2 ? 0 : count - 2; };
  for (size_t i = 0; i < lead(to.size()); ++i) {
    if (to[i] == 1)
      continue;
    while (next < lead(dims) && from[next] == 1)
      ++next;
    sizes[i] = tensor.size(int64_t(next++));
  }
  sizes[sizes.size() - 2] = tensor.size(-2);
  sizes.back() = tensor.size(-1);
  return tensor.reshape(sizes);
}

} // namespace fsdp::attention

#endif // FSDP_IR_CAPTURE_ATTENTION_CALLS_H
