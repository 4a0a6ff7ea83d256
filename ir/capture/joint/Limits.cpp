//===- Limits.cpp - Greatest and least numbers of a dtype -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/Limits.h"
#include "ir/capture/joint/RecordData.h"
#include "support/Error.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string_view>
#include <unordered_set>

using namespace fsdp;
using namespace fsdp::capture;

namespace {

using c10::ScalarType;

/// What is finite in a dtype, wide dtypes first.
struct Range {
  ScalarType dtype;
  std::string_view name; ///< as configs write it
  double greatest;
  double smallest; ///< positive and normal
};

template <typename T>
Range rangeOf(ScalarType dtype, std::string_view name) {
  return {dtype, name, static_cast<double>(std::numeric_limits<T>::max()),
          static_cast<double>(std::numeric_limits<T>::min())};
}

const Range ranges[] = {
    rangeOf<double>(ScalarType::Double, "float64"),
    rangeOf<float>(ScalarType::Float, "float32"),
    rangeOf<c10::BFloat16>(ScalarType::BFloat16, "bfloat16"),
    rangeOf<c10::Half>(ScalarType::Half, "float16")};

const Range *findRange(ScalarType dtype) {
  const Range *range = std::ranges::find(ranges, dtype, &Range::dtype);
  return range == std::end(ranges) ? nullptr : range;
}

/// Operators whose results hold numbers of their operands as they are, or near
/// them: what a mask goes through on its way to the scores.
const std::unordered_set<std::string_view> carriers = {"aten::_reshape_alias",
                                                       "aten::_to_copy",
                                                       "aten::_unsafe_view",
                                                       "aten::add",
                                                       "aten::alias",
                                                       "aten::as_strided",
                                                       "aten::cat",
                                                       "aten::clamp",
                                                       "aten::clamp_max",
                                                       "aten::clamp_min",
                                                       "aten::clone",
                                                       "aten::constant_pad_nd",
                                                       "aten::copy",
                                                       "aten::detach",
                                                       "aten::diagonal",
                                                       "aten::div",
                                                       "aten::expand",
                                                       "aten::fill",
                                                       "aten::flip",
                                                       "aten::gather",
                                                       "aten::index",
                                                       "aten::index_put",
                                                       "aten::index_select",
                                                       "aten::lift_fresh_copy",
                                                       "aten::masked_fill",
                                                       "aten::maximum",
                                                       "aten::minimum",
                                                       "aten::mul",
                                                       "aten::neg",
                                                       "aten::permute",
                                                       "aten::repeat",
                                                       "aten::roll",
                                                       "aten::rsub",
                                                       "aten::scatter",
                                                       "aten::select",
                                                       "aten::select_scatter",
                                                       "aten::slice",
                                                       "aten::slice_scatter",
                                                       "aten::split",
                                                       "aten::split_with_sizes",
                                                       "aten::squeeze",
                                                       "aten::stack",
                                                       "aten::sub",
                                                       "aten::t",
                                                       "aten::transpose",
                                                       "aten::tril",
                                                       "aten::triu",
                                                       "aten::unbind",
                                                       "aten::unsqueeze",
                                                       "aten::view",
                                                       "aten::where"};

/// Operators that write a number as it is, of which LibTorch's kernels refuse
/// one that is finite and overflows. Others compute on and become infinite.
const std::unordered_set<std::string_view> writers = {
    "aten::clamp",           "aten::clamp_max",   "aten::clamp_min",
    "aten::constant_pad_nd", "aten::fill",        "aten::full",
    "aten::full_like",       "aten::hardshrink",  "aten::hardtanh",
    "aten::index_fill",      "aten::masked_fill", "aten::new_full",
    "aten::scatter",         "aten::threshold"};

class Narrower {
public:
  explicit Narrower(JointGraph &graph) : graph(graph) {
    auto add = [&](const std::string &name) {
      for (const Range &range : ranges)
        if (name == range.name)
          allowed.push_back(&range);
    };
    add(graph.precision.policy.paramDtype);
    for (const PrecisionOverride &override : graph.precision.overrides)
      add(override.policy.paramDtype);
  }

  void run() {
    if (allowed.empty())
      return;
    readers.resize(graph.values.size());
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      for (const Argument &argument : graph.nodes[i].arguments)
        for (ValueId tensor : argument.tensors)
          if (tensor != kNoValue &&
              (readers[tensor].empty() || readers[tensor].back() != i))
            readers[tensor].push_back(i);
    for (Node &node : graph.nodes)
      for (Argument &argument : node.arguments)
        if (argument.kind == Argument::Kind::Static &&
            argument.value.isDouble()) {
          double number = argument.value.toDouble();
          if (auto narrowed = narrow(number, node, {node.results}))
            argument.value = *narrowed;
          else
            checkFits(number, node);
        }
    for (Constant &constant : graph.constants)
      narrowConstant(constant);
    for (const State &state : graph.states)
      narrowConstant(state);
  }

private:
  /// The range in which `node` computes; null if it is none of those.
  const Range *findComputed(const Node &node) const {
    std::optional<ScalarType> dtype;
    auto take = [&](ValueId value) {
      if (value == kNoValue || !at::isFloatingType(graph.values[value].dtype))
        return;
      ScalarType own = graph.values[value].dtype;
      dtype = dtype ? c10::promoteTypes(*dtype, own) : own;
    };
    std::ranges::for_each(node.results, take);
    // A comparison computes in its operands' dtype.
    if (!dtype)
      for (const Argument &argument : node.arguments)
        std::ranges::for_each(argument.tensors, take);
    return dtype ? findRange(*dtype) : nullptr;
  }

  /// The range, of those that policies bring in, that a value near a limit goes
  /// to from `values`; the narrowest if several.
  const Range *findNarrowest(std::vector<ValueId> values) const {
    const Range *narrowest = nullptr;
    std::unordered_set<ValueId> seen(values.begin(), values.end());
    while (!values.empty()) {
      ValueId value = values.back();
      values.pop_back();
      if (value == kNoValue)
        continue;
      const Range *own = findRange(graph.values[value].dtype);
      for (size_t reader : readers[value]) {
        const Node &node = graph.nodes[reader];
        if (!carriers.contains(node.op.operator_name().name))
          continue;
        const Range *made = findComputed(node);
        if (!made || !own)
          continue;
        if (made->greatest < own->greatest) {
          if (std::ranges::find(allowed, made) != allowed.end() &&
              (!narrowest || made->greatest < narrowest->greatest))
            narrowest = made;
          continue;
        }
        for (ValueId result : node.results)
          if (result != kNoValue && seen.insert(result).second)
            values.push_back(result);
      }
    }
    return narrowest;
  }

  /// What stands for `number`, which `node` computes with or makes, if it is a
  /// limit that does not fit where it goes; `values` are what holds it.
  std::optional<double> narrow(double number, const Node &node,
                               std::vector<ValueId> values) {
    for (const Range &range : ranges) {
      bool isSmallest = std::abs(number) == range.smallest;
      if (std::abs(number) != range.greatest && !isSmallest)
        continue;
      const Range *into = findComputed(node);
      if (into && std::ranges::find(allowed, into) == allowed.end())
        into = nullptr;
      // A sum in the wider dtype has use for its own smallest number.
      if (!isSmallest && (!into || into->greatest >= range.greatest))
        into = findNarrowest(std::move(values));
      if (!into || (isSmallest ? into->smallest <= range.smallest
                               : into->greatest >= range.greatest))
        return std::nullopt;
      graph.limits.push_back(
          {getOperatorName(node.op), range.dtype, into->dtype, node.location});
      return std::copysign(isSmallest ? into->smallest : into->greatest,
                           number);
    }
    return std::nullopt;
  }

  /// Refuses a number that `node` would refuse when it runs.
  void checkFits(double number, const Node &node) const {
    if (!writers.contains(node.op.operator_name().name))
      return;
    const Range *made = findComputed(node);
    if (!made || !std::isfinite(number) || std::abs(number) <= made->greatest)
      return;
    std::ostringstream message;
    message << getOperatorName(node.op);
    if (node.location != kNoLocation)
      message << " (" << graph.locations[node.location].describe() << ")";
    message << " writes " << number << " into " << made->name
            << ", which mixed precision makes it compute in and whose greatest "
               "number is "
            << made->greatest
            << "; PyTorch refuses that, too. Write torch.finfo(x.dtype).min or "
               "float('-inf'), or compute in bfloat16";
    throw Error(ErrorId::OperatorFailed, message.str());
  }

  /// As `narrow`, of a value that is that number, by its readers.
  std::optional<double> narrowValue(double number, ValueId value) {
    for (size_t reader : readers[value])
      if (const Node &node = graph.nodes[reader];
          auto narrowed = narrow(number, node, node.results))
        return narrowed;
    return std::nullopt;
  }

  /// One number, such as torch.tensor(torch.finfo(dtype).min).
  void narrowConstant(Constant &constant) {
    const at::Tensor &data = constant.data;
    if (data.numel() != 1 || !data.is_floating_point())
      return;
    if (auto number = narrowValue(data.item().toDouble(), constant.value))
      constant.data = at::full(data.sizes(), *number, data.options());
  }

  /// The same where the number lies in the model's file.
  void narrowConstant(const State &state) {
    if (state.role != StateRole::Constant || !state.source ||
        c10::multiply_integers(state.type.sizes) != 1)
      return;
    std::optional<double> own = readNumber(state);
    std::optional<double> number =
        own ? narrowValue(*own, state.value) : std::nullopt;
    if (!number)
      return;
    ValueId value = graph.values.size();
    graph.values.push_back(state.type);
    graph.constants.push_back(
        {value, at::full(state.type.sizes, *number,
                         at::TensorOptions(state.type.dtype))});
    for (size_t reader : readers[state.value])
      for (Argument &argument : graph.nodes[reader].arguments)
        std::ranges::replace(argument.tensors, state.value, value);
  }

  /// Absent for other types than these, and for a file that cannot be read,
  /// which is another's to say.
  std::optional<double> readNumber(const State &state) const {
    if (state.type.dtype != ScalarType::Float &&
        state.type.dtype != ScalarType::Double)
      return std::nullopt;
    at::Tensor number = readRecord(graph.file.path, *state.source, state.type);
    if (!number.defined())
      return std::nullopt;
    return number.item().toDouble();
  }

  JointGraph &graph;
  std::vector<const Range *> allowed;
  std::vector<std::vector<size_t>> readers; // by value: nodes
};

} // namespace

void fsdp::capture::narrowLimits(JointGraph &graph) { Narrower(graph).run(); }
