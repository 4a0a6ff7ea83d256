//===- ConstantValues.cpp - What depends on no data -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/attention/ConstantValues.h"
#include "ir/capture/attention/Calls.h"
#include "ir/capture/joint/Draws.h"
#include "ir/capture/joint/RecordData.h"
#include "ir/capture/meta/Plainly.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/stack.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

using namespace fsdp;
using namespace fsdp::attention;
using at::Tensor;
using capture::Argument;
using capture::kNoValue;

namespace {

/// Operators whose result is one number in the sizes of what they are given:
/// this one, or an argument.
const std::unordered_map<std::string_view, double> fills = {
    {"aten::zeros", 0},    {"aten::ones", 1},       {"aten::new_zeros", 0},
    {"aten::new_ones", 1}, {"aten::zeros_like", 0}, {"aten::ones_like", 1}};
const std::unordered_set<std::string_view> fillsOfArgument = {
    "aten::full", "aten::new_full", "aten::full_like", "aten::fill"};

} // namespace

/// Of a tensor that no operator makes.
Tensor ConstantValues::findData(ValueId value) {
  if (auto it = assumed.find(value); it != assumed.end())
    return it->second;
  auto it =
      std::ranges::find(graph.constants, value, &capture::Constant::value);
  if (it != graph.constants.end())
    return it->data;
  auto [known, isNew] = ofFile.try_emplace(value);
  auto state = std::ranges::find(graph.states, value, &capture::State::value);
  if (isNew && readsStates && state != graph.states.end() && state->isFixed() &&
      state->source && state->source->bytes && isSmall(value)) {
    meta::Plainly plainly;
    known->second =
        capture::readRecord(graph.file.path, *state->source, state->type);
  }
  return known->second;
}

bool ConstantValues::hasReadChanged(const capture::JointGraph &complete) const {
  return std::ranges::any_of(
      complete.results, [&](const capture::Result &result) {
        if (result.kind != capture::Result::Kind::State)
          return false;
        auto it = ofFile.find(complete.states[result.index].value);
        return it != ofFile.end() && it->second.defined();
      });
}

bool ConstantValues::isSmall(ValueId value) const {
  return c10::multiply_integers(graph.values[value].sizes) <= most;
}

/// What fills the result; whatever it is like does not matter.
std::optional<Tensor> ConstantValues::findFill(const Node &node) const {
  if (node.results.size() != 1)
    return std::nullopt;
  at::ScalarType dtype = graph.values[node.results.front()].dtype;
  meta::Plainly plainly;
  if (auto it = fills.find(nameOf(node)); it != fills.end())
    return at::scalar_tensor(it->second, dtype);
  if (!fillsOfArgument.contains(nameOf(node)))
    return std::nullopt;
  const c10::IValue *number = findArgument(node, "fill_value");
  if (!number)
    number = findArgument(node, "value");
  if (!number || !number->isScalar())
    return std::nullopt;
  return at::full({}, number->toScalar(), dtype);
}

bool ConstantValues::isConstant(ValueId value) {
  if (value == kNoValue)
    return true;
  if (auto it = constant.find(value); it != constant.end())
    return it->second;
  const Node *node = findProducer(value);
  bool found = false;
  if (node)
    found = findFill(*node) ||
            (nameOf(*node) != capture::kDrawOperator &&
             !node->op.hasTag(at::Tag::nondeterministic_seeded) &&
             std::ranges::all_of(node->arguments, [&](const Argument &each) {
               return std::ranges::all_of(each.tensors, [&](ValueId tensor) {
                 return isConstant(tensor);
               });
             }));
  else
    found = findData(value).defined();
  return constant[value] = found;
}

Tensor ConstantValues::call(const Node &node, ValueId result,
                            const std::function<Tensor(ValueId)> &get) {
  torch::jit::Stack stack;
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    const Argument &argument = node.arguments[i];
    const c10::Argument &formal = node.op.schema().arguments()[i];
    auto given = [&](ValueId each) {
      return each == kNoValue ? Tensor() : get(each);
    };
    switch (argument.kind) {
    case Argument::Kind::Static:
      stack.push_back(argument.value.isDevice()
                          ? c10::IValue(c10::Device(c10::kCPU))
                          : argument.value);
      break;
    case Argument::Kind::Tensor:
      stack.push_back(argument.tensors.front() == kNoValue
                          ? c10::IValue()
                          : c10::IValue(given(argument.tensors.front())));
      break;
    case Argument::Kind::List:
      if (formal.type()->isSubtypeOf(*c10::ListType::ofTensors())) {
        c10::List<Tensor> list;
        for (ValueId each : argument.tensors)
          list.push_back(given(each));
        stack.push_back(list);
      } else {
        c10::List<std::optional<Tensor>> list;
        for (ValueId each : argument.tensors)
          list.push_back(each == kNoValue ? std::nullopt
                                          : std::optional(given(each)));
        stack.push_back(list);
      }
      break;
    }
  }
  meta::Plainly plainly;
  node.op.callBoxed(stack);
  // Lists are flattened in `results`.
  size_t next = 0;
  for (const c10::IValue &each : stack) {
    if (each.isTensor() && node.results[next++] == result)
      return each.toTensor();
    if (each.isTensorList())
      for (const Tensor &tensor : each.toTensorVector())
        if (node.results[next++] == result)
          return tensor;
  }
  return {};
}

Tensor ConstantValues::getWhole(ValueId value) {
  if (value == kNoValue || !isSmall(value) || !isConstant(value))
    return {};
  if (auto it = whole.find(value); it != whole.end())
    return it->second;
  Tensor found;
  if (const Node *node = findProducer(value)) {
    if (std::optional<Tensor> number = findFill(*node)) {
      meta::Plainly plainly;
      found = number->expand(graph.values[value].sizes);
    } else {
      bool isWhole = true;
      for (const Argument &argument : node->arguments)
        for (ValueId each : argument.tensors)
          isWhole &= each == kNoValue || getWhole(each).defined();
      if (isWhole)
        found =
            call(*node, value, [&](ValueId each) { return getWhole(each); });
      else if (std::optional<Steps> pieces = computeSteps(value)) {
        meta::Plainly plainly;
        int64_t rows = pieces->sizes.size() < 2
                           ? 1
                           : pieces->sizes[pieces->sizes.size() - 2];
        found = expandRows(*pieces, at::arange(rows)).expand(pieces->sizes);
      }
    }
  } else {
    found = findData(value);
  }
  return whole[value] = found;
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

std::optional<Steps> ConstantValues::getSteps(ValueId value) {
  if (value == kNoValue || !isConstant(value) ||
      graph.values[value].sizes.empty() ||
      c10::multiply_integers(graph.values[value].sizes) == 0)
    return std::nullopt;
  if (auto it = steps.find(value); it != steps.end())
    return it->second;
  std::optional<Steps> found;
  if (Tensor dense = isSmall(value) ? getWhole(value) : findData(value);
      dense.defined()) {
    meta::Plainly plainly;
    found = fromDense(dense);
  } else if (!isSmall(value)) {
    found = computeSteps(value);
  }
  if (found) {
    // As many dims as the tensor has.
    meta::Plainly plainly;
    int64_t dims = std::max<int64_t>(2, int64_t(found->sizes.size()));
    while (found->ends.dim() < dims) {
      found->ends = found->ends.unsqueeze(0);
      found->values = found->values.unsqueeze(0);
    }
  }
  return steps[value] = found;
}

std::optional<Steps> ConstantValues::sliceSteps(const Node &node, ValueId value,
                                                ValueId source) {
  std::optional<SliceBounds> part = readSlice(node, graph.values[source].sizes);
  std::optional<Steps> operand = part ? getSteps(source) : std::nullopt;
  if (!operand)
    return std::nullopt;
  auto [dim, start, end] = *part;
  meta::Plainly plainly;
  if (dim == -1)
    return sliceColumns(*operand, start, end);
  operand->sizes = graph.values[value].sizes;
  if (operand->ends.size(dim) != 1) {
    operand->ends = operand->ends.narrow(dim, start, end - start);
    operand->values = operand->values.narrow(dim, start, end - start);
  }
  return operand;
}

std::optional<Steps> ConstantValues::computeSteps(ValueId value) {
  const Node *node = findProducer(value);
  if (!node)
    return std::nullopt;
  const std::vector<int64_t> &sizes = graph.values[value].sizes;
  if (std::optional<Tensor> number = findFill(*node))
    return makeConstant(sizes, *number);
  std::string_view name = nameOf(*node);
  if (node->op.hasTag(at::Tag::pointwise))
    return computePointwise(*node, value);
  ValueId source = sourceOf(*node);
  if (source == kNoValue)
    return std::nullopt;
  const std::vector<int64_t> &from = graph.values[source].sizes;
  if (name == "aten::triu" || name == "aten::tril") {
    std::optional<Steps> operand = getSteps(source);
    meta::Plainly plainly;
    return operand ? cutDiagonally(*operand, numberOf(*node, "diagonal", 0),
                                   name == "aten::triu")
                   : std::nullopt;
  }
  if (name == "aten::slice")
    return sliceSteps(*node, value, source);
  if (!rowKeepers.contains(name))
    return std::nullopt;
  // A row for all: given by the rows' own numbers.
  if (name == "aten::expand" && from.back() == 1 && sizes.back() != 1) {
    Tensor rows = getWhole(source);
    meta::Plainly plainly;
    if (!rows.defined())
      return std::nullopt;
    Steps found = repeatRows(rows, sizes.back());
    found.sizes = sizes;
    return found;
  }
  std::optional<Steps> operand = getSteps(source);
  if (!operand)
    return std::nullopt;
  meta::Plainly plainly;
  if (name == "aten::expand") {
    operand->sizes = sizes;
  } else if (from != sizes) {
    if (from.size() < 2 || sizes.size() < 2 ||
        withoutOnes(from) != withoutOnes(sizes))
      return std::nullopt;
    operand->ends = moveOnes(operand->ends, from, sizes);
    operand->values = moveOnes(operand->values, from, sizes);
    operand->sizes = sizes;
  }
  operand->values = operand->values.to(graph.values[value].dtype);
  return operand;
}

bool ConstantValues::isColumn(ValueId value) const {
  const std::vector<int64_t> &own = graph.values[value].sizes;
  return !own.empty() && own.back() != 1 && isSmall(value) &&
         (own.size() < 2 || own[own.size() - 2] == 1);
}

bool ConstantValues::isRow(ValueId value) const {
  const std::vector<int64_t> &own = graph.values[value].sizes;
  return isSmall(value) && (own.empty() || own.back() == 1);
}

std::optional<Steps> ConstantValues::computePointwise(const Node &node,
                                                      ValueId value) {
  const std::vector<int64_t> &sizes = graph.values[value].sizes;
  std::vector<ValueId> tensors;
  for (const Argument &argument : node.arguments)
    for (ValueId each : argument.tensors)
      if (each != kNoValue)
        tensors.push_back(each);
  // Positions of queries against those of keys.
  if (tensors.size() == 2) {
    std::string_view compare = nameOf(node).substr(6); // behind "aten::"
    ValueId row = tensors[0], column = tensors[1];
    if (isColumn(row) && isRow(column)) {
      std::swap(row, column);
      compare = turnCompare(compare);
    }
    if (isRow(row) && isColumn(column)) {
      Tensor rows = getWhole(row), columns = getWhole(column);
      meta::Plainly plainly;
      if (rows.defined() && columns.defined())
        if (auto found = compareSorted(
                compare, rows.dim() ? rows : rows.unsqueeze(0), columns, sizes))
          return found;
    }
  }
  if (std::optional<Steps> found = compareDifference(node, sizes))
    return found;
  std::vector<Steps> operands;
  for (ValueId each : tensors) {
    if (isRow(each)) {
      Tensor rows = getWhole(each);
      meta::Plainly plainly;
      if (!rows.defined())
        return std::nullopt;
      operands.push_back(
          repeatRows(rows.dim() ? rows : rows.unsqueeze(0), sizes.back()));
    } else if (std::optional<Steps> found = getSteps(each)) {
      operands.push_back(std::move(*found));
    } else {
      return std::nullopt;
    }
  }
  std::vector<const Steps *> pointers;
  for (const Steps &each : operands)
    pointers.push_back(&each);
  if (pointers.empty())
    return std::nullopt;
  auto compute = [&](std::vector<Tensor> given) {
    size_t next = 0;
    return call(node, value, [&](ValueId) { return given[next++]; });
  };
  meta::Plainly plainly;
  return combine(pointers, sizes, compute);
}
