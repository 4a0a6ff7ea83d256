//===- Differences.cpp - Distances of queries and keys, compared ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A distance, as `query - key`, has as many values as there are positions, and
// no pieces; compared with a number it has two: `query - key < 4` says of
// integers what `query - 4 < key` says.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/attention/Calls.h"
#include "ir/capture/attention/ConstantValues.h"
#include "ir/capture/meta/Plainly.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_or.h>

#include <cstdlib>

using namespace fsdp;
using namespace fsdp::attention;
using at::Tensor;
using capture::kNoValue;
using capture::Node;

/// Greater numbers than positions are; sums of two do not overflow.
static constexpr int64_t kGreatest = int64_t(1) << 40;

namespace {

/// What is compared with a number: a difference of a and b, or its distance
/// from 0.
struct Difference {
  capture::ValueId a, b;
  bool isDistance;
};

} // namespace

static std::optional<Difference>
findDifference(Producers &producers, const capture::JointGraph &graph,
               capture::ValueId value) {
  const Node *node = producers.find(value);
  bool isDistance = node && nameOf(*node) == "aten::abs";
  if (isDistance)
    node = producers.find(sourceOf(*node));
  if (!node || nameOf(*node) != "aten::sub" || node->arguments.size() != 3 ||
      node->arguments[1].tensors.size() != 1 ||
      numberOf(*node, "alpha", 1) != 1)
    return std::nullopt;
  Difference found{sourceOf(*node), node->arguments[1].tensors.front(),
                   isDistance};
  for (capture::ValueId each : {found.a, found.b})
    if (each == kNoValue || !isWhole(graph.values[each].dtype))
      return std::nullopt;
  return found;
}

std::optional<ConstantValues::Comparison>
ConstantValues::readComparison(const Node &node) {
  // compare(difference, number), as an argument or a tensor of one element.
  std::string_view compare = nameOf(node).substr(6); // behind "aten::"
  ValueId value = sourceOf(node);
  if (turnCompare(compare).empty() || node.arguments.size() != 2 ||
      value == kNoValue)
    return std::nullopt;
  std::optional<int64_t> number;
  if (const c10::IValue *other = findArgument(node, "other")) {
    if (other->isInt())
      number = other->toInt();
  } else if (node.arguments[1].tensors.size() == 1) {
    ValueId second = node.arguments[1].tensors.front();
    auto isNumber = [&](ValueId each) {
      return each != kNoValue && isWhole(graph.values[each].dtype) &&
             c10::multiply_integers(graph.values[each].sizes) == 1;
    };
    if (isNumber(value)) {
      std::swap(value, second);
      compare = turnCompare(compare);
    }
    if (Tensor known = isNumber(second) ? getWhole(second) : Tensor();
        known.defined()) {
      meta::Plainly plainly;
      number = known.item<int64_t>();
    }
  }
  if (!number || std::abs(*number) > kGreatest)
    return std::nullopt;
  return Comparison{compare, value, *number};
}

std::optional<Steps>
ConstantValues::compareDifference(const Node &node,
                                  const std::vector<int64_t> &sizes) {
  std::optional<Comparison> compared = readComparison(node);
  if (!compared)
    return std::nullopt;
  auto [compare, value, number] = *compared;
  std::optional<Difference> found = findDifference(producers, graph, value);
  if (!found)
    return std::nullopt;
  bool isFromRow = isRow(found->a) && isColumn(found->b);
  if (!isFromRow && !(isColumn(found->a) && isRow(found->b)))
    return std::nullopt;
  Tensor rows = getWhole(isFromRow ? found->a : found->b);
  Tensor columns = getWhole(isFromRow ? found->b : found->a);
  if (!rows.defined() || !columns.defined())
    return std::nullopt;
  meta::Plainly plainly;
  if (rows.dim() == 0)
    rows = rows.unsqueeze(0);
  rows = rows.to(at::kLong);
  columns = columns.to(at::kLong);
  for (const Tensor &each : {rows, columns})
    if ((each.abs() > kGreatest).any().item<bool>())
      return std::nullopt;
  // row - column against n is row - n against column; column - row against n is
  // n + row against column, turned.
  auto against = [&](std::string_view how, int64_t n) {
    return isFromRow
               ? compareSorted(how, rows - n, columns, sizes)
               : compareSorted(turnCompare(how), rows + n, columns, sizes);
  };
  if (!found->isDistance)
    return against(compare, number);
  if (compare == "eq" || compare == "ne")
    return std::nullopt;
  bool isInside = compare == "lt" || compare == "le";
  std::optional<Steps> above = against(compare, number);
  std::optional<Steps> below = against(turnCompare(compare), -number);
  if (!above || !below)
    return std::nullopt;
  const Steps *const both[] = {&*above, &*below};
  return combine(both, sizes, [&](std::vector<Tensor> given) {
    return isInside ? at::logical_and(given[0], given[1])
                    : at::logical_or(given[0], given[1]);
  });
}
