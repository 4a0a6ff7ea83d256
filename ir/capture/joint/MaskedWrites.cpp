//===- MaskedWrites.cpp - Numbers written where a mask is true ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/MaskedWrites.h"

#include <algorithm>

using namespace fsdp::capture;

namespace {

c10::OperatorHandle findOperator(const char *name, const char *overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

class MaskedWrites {
public:
  explicit MaskedWrites(JointGraph &graph) : graph(graph) {}

  void run() {
    std::vector<Node> before = std::move(graph.nodes);
    graph.nodes.clear();
    for (Node &node : before) {
      chooseInstead(node);
      graph.nodes.push_back(std::move(node));
    }
  }

private:
  const TensorType &typeOf(ValueId value) const { return graph.values[value]; }
  int64_t rankOf(ValueId value) const {
    return static_cast<int64_t>(typeOf(value).sizes.size());
  }
  bool isContiguous(ValueId value) const {
    const TensorType &type = typeOf(value);
    return type == TensorType::contiguous(type.dtype, type.sizes);
  }
  /// Whether `value` is one element that fits into `self` as it is.
  bool isElement(ValueId value, ValueId self) const {
    const TensorType &type = typeOf(value);
    return type.dtype == typeOf(self).dtype && rankOf(value) <= rankOf(self) &&
           std::ranges::all_of(type.sizes, [](int64_t s) { return s == 1; });
  }

  void chooseInstead(Node &node);
  /// The mask among the indices of `node`, with dims of size 1 for all behind
  /// those that it covers; kNoValue if there is another index.
  ValueId findMask(const Node &node);
  ValueId addDims(ValueId mask, int64_t count, const Node &node);

  JointGraph &graph;
};

ValueId MaskedWrites::findMask(const Node &node) {
  ValueId mask = kNoValue;
  int64_t holes = 0;
  for (ValueId index : node.arguments[1].tensors) {
    if (index != kNoValue && mask != kNoValue)
      return kNoValue;
    if (index != kNoValue)
      mask = index;
    else if (mask == kNoValue)
      ++holes;
  }
  if (mask == kNoValue || typeOf(mask).dtype != c10::ScalarType::Bool ||
      !isContiguous(mask))
    return kNoValue;
  int64_t rest = rankOf(node.arguments[0].tensors[0]) - holes - rankOf(mask);
  if (rest < 0)
    return kNoValue;
  return rest == 0 ? mask : addDims(mask, rest, node);
}

ValueId MaskedWrites::addDims(ValueId mask, int64_t count, const Node &node) {
  TensorType type = typeOf(mask);
  type.sizes.insert(type.sizes.end(), static_cast<size_t>(count), 1);
  type.strides.insert(type.strides.end(), static_cast<size_t>(count), 1);
  auto result = static_cast<ValueId>(graph.values.size());
  graph.values.push_back(type);
  graph.nodes.push_back({findOperator("aten::view", ""),
                         {{Argument::Kind::Tensor, {mask}, {}},
                          {Argument::Kind::Static, {}, type.sizes}},
                         {result},
                         node.location,
                         kNoCast,
                         node.underNoGrad});
  return result;
}

void MaskedWrites::chooseInstead(Node &node) {
  const c10::OperatorName &name = node.op.operator_name();
  bool isPut =
      name.name == "aten::index_put" || name.name == "aten::_unsafe_index_put";
  bool isFill =
      name.name == "aten::masked_fill" && name.overload_name == "Tensor";
  if ((!isPut && !isFill) || node.results.size() != 1 ||
      node.results[0] == kNoValue)
    return;
  ValueId self = node.arguments[0].tensors[0];
  ValueId element = node.arguments[2].tensors[0];
  // A fill's mask may have more dims than what it fills, and a choice lies as
  // its mask does.
  if (!isElement(element, self) || !isContiguous(self) ||
      typeOf(self) != typeOf(node.results[0]) ||
      (isPut && node.arguments[3].value.toBool()))
    return;
  ValueId mask = isPut ? findMask(node) : node.arguments[1].tensors[0];
  if (mask == kNoValue || typeOf(mask).dtype != c10::ScalarType::Bool ||
      !isContiguous(mask))
    return;
  node.op = findOperator("aten::where", "self");
  node.arguments = {{Argument::Kind::Tensor, {mask}, {}},
                    {Argument::Kind::Tensor, {element}, {}},
                    {Argument::Kind::Tensor, {self}, {}}};
}

} // namespace

void fsdp::capture::chooseByMasks(JointGraph &graph) {
  MaskedWrites(graph).run();
}
