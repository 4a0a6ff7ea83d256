//===- LostGradients.cpp - Gradients that an export left out --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/LostGradients.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

using namespace fsdp;
using namespace fsdp::capture;

//===----------------------------------------------------------------------===//
// Backwards
//===----------------------------------------------------------------------===//

std::string LostBackward::describe() const {
  std::string what =
      kind == Kind::Checkpoint ? "a checkpoint with use_reentrant=True"
      : kind == Kind::Hook     ? "a hook on the gradient " + function
      : kind == Kind::Identity && function.empty()
          ? "a function that returns its input, or of a backward hook"
      : function.empty() ? "a function"
                         : "'" + function + "'";
  std::string where = location.describe();
  if (!forward.empty())
    where +=
        (where.empty() ? "its forward at " : ", its forward at ") + forward;
  return where.empty() ? what : what + " (" + where + ")";
}

std::string LostBackward::describeAccepted() const {
  if (kind == Kind::Hook)
    return describe() + " is not in the export: gradients are those without it";
  return "the backward of " + describe() +
         " is not in the export: gradients are those of its forward's "
         "operators";
}

std::optional<std::string>
capture::describeSparseGradient(const JointGraph &graph) {
  for (const Node &node : graph.nodes) {
    const std::vector<c10::Argument> &arguments = node.op.schema().arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Argument &given = node.arguments[i];
      if (arguments[i].name() != "sparse" || !given.value.isBool() ||
          !given.value.toBool())
        continue;
      std::string where = node.location == kNoLocation
                              ? ""
                              : graph.locations[node.location].describe();
      return "an embedding with sparse=True" +
             (where.empty() ? "" : " (" + where + ")") +
             " has sparse gradients, which ranks cannot reduce; export it "
             "with sparse=False, whose gradients have the same numbers";
    }
  }
  return std::nullopt;
}

Error capture::explainLostBackwards(const std::vector<LostBackward> &lost) {
  constexpr size_t kMost = 4;
  std::string all;
  for (size_t i = 0; i < std::min(lost.size(), kMost); ++i)
    all += (i ? ", " : "") + lost[i].describe();
  if (lost.size() > kMost)
    all += " and " + std::to_string(lost.size() - kMost) + " more";
  bool unknown = std::any_of(lost.begin(), lost.end(), [](const auto &each) {
    return each.kind == LostBackward::Kind::Function && each.function.empty();
  });
  auto areAll = [&](LostBackward::Kind kind) {
    return std::all_of(lost.begin(), lost.end(),
                       [&](const auto &each) { return each.kind == kind; });
  };
  if (areAll(LostBackward::Kind::Hook))
    return {ErrorId::BackwardLost,
            "torch.export drops hooks on gradients: " + all +
                ", so that gradients would differ from PyTorch's; write what "
                "they do as operators of the forward (docs/Config.md), remove "
                "those that only look, or train without them: lost_gradients: "
                "accept in the config"};
  if (areAll(LostBackward::Kind::Checkpoint))
    return {ErrorId::BackwardLost,
            "torch.export turned " + all +
                " into a region without gradients; call checkpoint(..., "
                "use_reentrant=False), in Hugging Face's models "
                "gradient_checkpointing_enable(gradient_checkpointing_kwargs="
                "{'use_reentrant': False}), or export without checkpoints"};
  return {
      ErrorId::BackwardLost,
      "torch.export kept the forward but not the hand-written backward of " +
          all +
          ", so that gradients would differ from PyTorch's; write it with "
          "PyTorch's operators (docs/Operators.md), or train with the "
          "gradients "
          "of the forward's operators: lost_gradients: accept in the config" +
          (unknown ? "; a module that the model does not register looks the "
                     "same: register it"
                   : "")};
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

/// Reads sizes, strides and dtype of its operand, no values.
static bool readsShapeOnly(const Node &node) {
  std::string_view name = node.op.operator_name().name;
  return name.ends_with("_like") || name.starts_with("aten::new_");
}

template <typename Visit>
static void forEachOperand(const Node &node, Visit visit) {
  for (const Argument &argument : node.arguments)
    for (ValueId value : argument.tensors)
      if (value != kNoValue)
        visit(value);
}

/// Which values `loss` is computed from.
static std::vector<bool> findNeeded(const JointGraph &graph, ValueId loss) {
  std::vector<bool> needed(graph.values.size());
  needed[loss] = true;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
    if (std::any_of(node->results.begin(), node->results.end(),
                    [&](ValueId id) { return id != kNoValue && needed[id]; }) &&
        !readsShapeOnly(*node))
      forEachOperand(*node, [&](ValueId id) { needed[id] = true; });
  return needed;
}

std::vector<std::string>
capture::explainLostGradients(const JointGraph &graph, ValueId loss,
                              const std::vector<size_t> &states) {
  std::vector<bool> needed = findNeeded(graph, loss);
  std::vector<std::string> lines;
  for (size_t index : states) {
    const State &state = graph.states[index];
    if (!needed[state.value])
      continue;
    const Node *reader = nullptr;
    for (const Node &node : graph.nodes) {
      bool reads = false;
      forEachOperand(node, [&](ValueId id) { reads |= id == state.value; });
      bool leads =
          std::any_of(node.results.begin(), node.results.end(),
                      [&](ValueId id) { return id != kNoValue && needed[id]; });
      if (reads && leads && !readsShapeOnly(node)) {
        reader = &node;
        break;
      }
    }
    std::string line = "'" + state.names.front() + "'";
    if (reader) {
      std::string where = reader->location == kNoLocation
                              ? ""
                              : graph.locations[reader->location].describe();
      line += ", which " + getOperatorName(reader->op) +
              (where.empty() ? "" : " (" + where + ")") + " reads" +
              (reader->underNoGrad ? " under no_grad" : "");
    }
    lines.push_back(std::move(line));
  }
  return lines;
}
