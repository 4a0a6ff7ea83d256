//===- SharedHeads.cpp - Heads that were repeated for queries -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/attention/SharedHeads.h"
#include "ir/capture/attention/Calls.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <array>

using namespace fsdp;
using namespace fsdp::attention;
using at::Tensor;
using capture::ValueId;

namespace {

/// An operator that may be between heads and their repetition, and the autograd
/// node that it makes.
struct Link {
  std::string_view op, gradient;
};
constexpr auto casts = std::to_array<Link>({
    {"aten::_to_copy", "ToCopyBackward0"},
});
constexpr auto joins = std::to_array<Link>({
    {"aten::_unsafe_view", "UnsafeViewBackward0"},
    {"aten::view", "ViewBackward0"},
    {"aten::_reshape_alias", "ReshapeAliasBackward0"},
});
constexpr auto copies =
    std::to_array<Link>({{"aten::clone", "CloneBackward0"}});
constexpr auto repeats =
    std::to_array<Link>({{"aten::expand", "ExpandBackward0"}});
constexpr auto wholeSlices =
    std::to_array<Link>({{"aten::slice", "SliceBackward0"}});
constexpr auto openings =
    std::to_array<Link>({{"aten::unsqueeze", "UnsqueezeBackward0"}});

/// Walks from a value to what it was made of, in the joint graph and in
/// autograd's, which has nothing where no gradient is asked for.
class Walk {
public:
  Walk(const capture::JointGraph &graph, Producers &producers, ValueId value,
       const Tensor &tensor)
      : value(value), graph(graph), producers(producers) {
    if (tensor.requires_grad())
      edge = torch::autograd::impl::gradient_edge(tensor);
  }

  const std::vector<int64_t> &sizes() const {
    return graph.values[value].sizes;
  }

  /// Over the operator that made the value, if it is one of `links`.
  template <size_t N>
  bool step(const std::array<Link, N> &links) {
    const capture::Node *node = producers.find(value);
    if (!node)
      return false;
    const Link *link = std::ranges::find(links, nameOf(*node), &Link::op);
    if (link == links.end())
      return false;
    if (edge.is_valid()) {
      if (edge.function->name() != link->gradient)
        return false;
      edge = edge.function->next_edge(0);
      if (!edge.is_valid())
        return false;
    }
    value = sourceOf(*node);
    return true;
  }

  ValueId value;
  torch::autograd::Edge edge;

private:
  const capture::JointGraph &graph;
  Producers &producers;
};

} // namespace

Tensor attention::findSharedHeads(capture::Recorder &recorder,
                                  const capture::JointGraph &graph,
                                  Producers &producers,
                                  const Tensor &repeated) {
  Walk walk(graph, producers, recorder.lookup(repeated), repeated);
  capture::CastId cast = capture::kNoCast;
  if (const capture::Node *node = producers.find(walk.value))
    cast = node->cast;
  bool isCast = walk.step(casts);
  const std::vector<int64_t> joined = walk.sizes();
  if (!walk.step(joins) || !walk.step(copies))
    return {};
  // [batch, heads, times, length, width]
  const std::vector<int64_t> apart = walk.sizes();
  if (apart.size() != 5 || joined.size() != 4 || joined[0] != apart[0] ||
      joined[1] != apart[1] * apart[2] || !walk.step(repeats))
    return {};
  while (walk.sizes().size() == 5 && walk.step(wholeSlices))
    ;
  std::vector<int64_t> once = apart;
  once[2] = 1;
  if (walk.sizes() != once || !walk.step(openings))
    return {};
  once.erase(once.begin() + 2);
  if (walk.sizes() != once)
    return {};
  Tensor heads = at::functionalization::impl::to_functional_tensor(
      recorder.getMeta(walk.value));
  if (walk.edge.is_valid()) {
    if (walk.edge.function->name() == "torch::autograd::AccumulateGrad")
      return {};
    torch::autograd::impl::set_gradient_edge(heads, walk.edge);
  }
  if (!isCast)
    return heads;
  if (cast == capture::kNoCast)
    return heads.to(repeated.scalar_type());
  capture::Recorder::CastScope scope(recorder, graph.casts[cast].cause,
                                     graph.casts[cast].name);
  return heads.to(repeated.scalar_type());
}
