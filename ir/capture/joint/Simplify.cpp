//===- Simplify.cpp - Removes what a joint graph does not need ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/Simplify.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

using namespace fsdp::capture;

namespace {

class Simplifier {
public:
  explicit Simplifier(JointGraph &graph) : graph(graph) {}

  void run() {
    for (const Constant &constant : graph.constants)
      if (constant.wrapped)
        numbers.emplace(constant.value, constant.data.item());
    alias.resize(graph.values.size());
    for (size_t i = 0; i < alias.size(); ++i)
      alias[i] = i;
    producer.assign(graph.values.size(), -1);
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      visit(graph.nodes[i], i);
    for (Result &result : graph.results)
      result.value = alias[result.value];
    dropUnused();
  }

private:
  void visit(Node &node, size_t index);
  void useScalars(Node &node);
  void forgetSeeds(Node &node);
  ValueId getNoSeed(const TensorType &type);
  ValueId getIdentity(const Node &node) const;
  void dropUnused();

  JointGraph &graph;
  std::vector<ValueId> alias;    // the value that stands for each value
  std::vector<int32_t> producer; // the node that makes each value
  std::unordered_map<ValueId, c10::Scalar> numbers;
  std::vector<ValueId> noSeeds; // what stands where none is read, by type
};

/// Operators whose last tensor may be a number, and the overloads that take it
/// as one and mean the same.
constexpr std::pair<std::string_view, const char *> scalarForms[] = {
    {"Tensor", "Scalar"},
    {"Tensor_mode", "Scalar_mode"},
};
const std::unordered_set<std::string_view> scalarOperators = {
    "aten::add",        "aten::sub",          "aten::mul",  "aten::div",
    "aten::remainder",  "aten::eq",           "aten::ne",   "aten::lt",
    "aten::le",         "aten::gt",           "aten::ge",   "aten::bitwise_and",
    "aten::bitwise_or", "aten::bitwise_xor",  "aten::fmod", "aten::masked_fill",
    "aten::fill",       "aten::floor_divide",
};
const std::unordered_set<std::string_view> commutativeOperators = {
    "aten::mul",         "aten::eq",         "aten::ne",
    "aten::bitwise_and", "aten::bitwise_or", "aten::bitwise_xor"};

/// Operators that return a view of their first argument, or that argument.
const std::unordered_set<std::string_view> identities = {
    "aten::detach", "aten::alias", "aten::lift_fresh"};
/// Those that do if sizes and strides stay the same.
const std::unordered_set<std::string_view> reshapes = {
    "aten::view",      "aten::_unsafe_view",   "aten::expand", "aten::permute",
    "aten::transpose", "aten::_reshape_alias", "aten::slice"};

void Simplifier::useScalars(Node &node) {
  if (numbers.empty() ||
      !scalarOperators.contains(node.op.operator_name().name))
    return;
  const std::vector<c10::Argument> &arguments = node.op.schema().arguments();
  // The last tensor argument is the one that may be a number.
  size_t last = arguments.size();
  for (size_t i = 0; i < node.arguments.size(); ++i)
    if (node.arguments[i].kind == Argument::Kind::Tensor)
      last = i;
  if (last == arguments.size() || last == 0)
    return;
  const auto *form = std::find_if(
      std::begin(scalarForms), std::end(scalarForms), [&](const auto &row) {
        return node.op.operator_name().overload_name == row.first;
      });
  if (form == std::end(scalarForms))
    return;
  if (!numbers.contains(node.arguments[last].tensors[0]) &&
      commutativeOperators.contains(node.op.operator_name().name) &&
      numbers.contains(node.arguments[0].tensors[0]))
    std::swap(node.arguments[0], node.arguments[last]);
  auto number = numbers.find(node.arguments[last].tensors[0]);
  if (number == numbers.end() || numbers.contains(node.arguments[0].tensors[0]))
    return;
  auto scalar = c10::Dispatcher::singleton().findSchema(
      {node.op.operator_name().name, form->second});
  if (!scalar || scalar->schema().arguments().size() != arguments.size())
    return;
  node.op = *scalar;
  node.arguments[last] = {Argument::Kind::Static, {}, number->second};
}

const std::unordered_set<std::string_view> attentionBackwards = {
    "aten::_flash_attention_backward",
    "aten::_scaled_dot_product_cudnn_attention_backward",
    "aten::_scaled_dot_product_efficient_attention_backward",
    "aten::_scaled_dot_product_flash_attention_backward"};

/// Without dropout nobody reads the state of LibTorch's generator, which the
/// forward operator returns: that of efficient attention on the host, or, while
/// a CUDA graph is captured, on the device (attention.cu:
/// _efficient_attention_forward), the others' in types that differ between
/// releases.
void Simplifier::forgetSeeds(Node &node) {
  if (!attentionBackwards.contains(node.op.operator_name().name))
    return;
  const c10::FunctionSchema &schema = node.op.schema();
  auto at = [&](const char *name) -> Argument & {
    return node.arguments[*schema.argumentIndexWithName(name)];
  };
  if (at("dropout_p").value.toDouble() != 0)
    return;
  for (const char *name :
       {"philox_seed", "philox_offset", "rng_state", "unused"})
    if (schema.argumentIndexWithName(name))
      for (ValueId &seed : at(name).tensors)
        if (seed != kNoValue)
          seed = getNoSeed(graph.values[seed]);
}

/// What stands for one of the type that nobody reads.
ValueId Simplifier::getNoSeed(const TensorType &type) {
  for (ValueId made : noSeeds)
    if (graph.values[made].dtype == type.dtype &&
        graph.values[made].sizes == type.sizes)
      return made;
  auto value = static_cast<ValueId>(graph.values.size());
  at::Tensor zero = at::zeros(type.sizes, type.dtype);
  graph.values.push_back(TensorType::of(zero));
  graph.constants.push_back({value, zero});
  alias.push_back(value);
  producer.push_back(-1);
  noSeeds.push_back(value);
  return value;
}

/// The value that the node's only result is equal to in all respects, or
/// kNoValue.
ValueId Simplifier::getIdentity(const Node &node) const {
  if (node.results.size() != 1 || node.results[0] == kNoValue ||
      node.arguments.empty() ||
      node.arguments[0].kind != Argument::Kind::Tensor)
    return kNoValue;
  ValueId source = node.arguments[0].tensors[0];
  const std::string &name = node.op.operator_name().name;
  if (identities.contains(name))
    return source;
  if (reshapes.contains(name) &&
      graph.values[node.results[0]] == graph.values[source])
    return source;
  if (name == "aten::t" && producer[source] >= 0) {
    const Node &inner = graph.nodes[producer[source]];
    if (inner.op.operator_name().name == "aten::t")
      return inner.arguments[0].tensors[0];
  }
  return kNoValue;
}

void Simplifier::visit(Node &node, size_t index) {
  for (Argument &argument : node.arguments)
    for (ValueId &tensor : argument.tensors)
      if (tensor != kNoValue)
        tensor = alias[tensor];
  useScalars(node);
  forgetSeeds(node);
  if (ValueId source = getIdentity(node); source != kNoValue)
    alias[node.results[0]] = source;
  for (ValueId result : node.results)
    if (result != kNoValue)
      producer[result] = index;
}

void Simplifier::dropUnused() {
  std::vector<bool> needed(graph.values.size());
  for (const Result &result : graph.results)
    needed[result.value] = true;
  std::vector<bool> keep(graph.nodes.size());
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node &node = graph.nodes[i];
    keep[i] = std::any_of(
        node.results.begin(), node.results.end(),
        [&](ValueId result) { return result != kNoValue && needed[result]; });
    if (!keep[i])
      continue;
    for (const Argument &argument : node.arguments)
      for (ValueId tensor : argument.tensors)
        if (tensor != kNoValue)
          needed[tensor] = true;
  }
  std::vector<Node> nodes;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (keep[i])
      nodes.push_back(std::move(graph.nodes[i]));
  graph.nodes = std::move(nodes);
  std::erase_if(graph.constants, [&](const Constant &constant) {
    return !needed[constant.value];
  });
}

} // namespace

void fsdp::capture::simplify(JointGraph &graph) { Simplifier(graph).run(); }

/// Whether the result's index is that of a state.
static bool isOfState(const Result &result) {
  return result.kind == Result::Kind::State ||
         result.kind == Result::Kind::Gradient;
}

/// Whether the graph reads or writes each of its states.
static std::vector<bool> findUsedStates(const JointGraph &graph) {
  std::vector<bool> isRead(graph.values.size()), isUsed(graph.states.size());
  for (const Node &node : graph.nodes)
    for (const Argument &argument : node.arguments)
      for (ValueId tensor : argument.tensors)
        if (tensor != kNoValue)
          isRead[tensor] = true;
  for (const Result &result : graph.results) {
    isRead[result.value] = true;
    if (isOfState(result))
      isUsed[result.index] = true;
  }
  for (size_t i = 0; i < graph.states.size(); ++i)
    if (isRead[graph.states[i].value])
      isUsed[i] = true;
  return isUsed;
}

/// Whether an export or a user would miss the state.
static bool isSeen(const State &state) {
  return state.role == StateRole::Parameter ||
         state.role == StateRole::Frozen ||
         (state.role == StateRole::Buffer && !state.isVolatile);
}

static void keepStates(JointGraph &graph, const std::vector<bool> &isKept) {
  std::vector<size_t> indexOf(graph.states.size());
  std::vector<State> kept;
  for (size_t i = 0; i < graph.states.size(); ++i) {
    indexOf[i] = kept.size();
    if (isKept[i])
      kept.push_back(std::move(graph.states[i]));
  }
  graph.states = std::move(kept);
  for (Result &result : graph.results)
    if (isOfState(result))
      result.index = indexOf[result.index];
}

void fsdp::capture::dropUnusedStates(std::span<JointGraph *const> graphs) {
  size_t count = graphs.front()->states.size();
  std::vector<bool> isKept(count);
  for (const JointGraph *graph : graphs) {
    // Then they cannot share a table, which whoever builds it says.
    if (graph->states.size() != count)
      return;
    std::vector<bool> isUsed = findUsedStates(*graph);
    for (size_t i = 0; i < count; ++i)
      if (isUsed[i] || isSeen(graph->states[i]))
        isKept[i] = true;
  }
  for (JointGraph *graph : graphs)
    keepStates(*graph, isKept);
}
