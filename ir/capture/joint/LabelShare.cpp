//===- LabelShare.cpp - Which labels a cross-entropy counts ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/LabelShare.h"
#include "support/Error.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/Reduction.h>

#include <algorithm>
#include <set>

using namespace fsdp;
using namespace fsdp::capture;

[[noreturn]] static void refuse(const JointGraph &graph, const Node *node,
                                const std::string &why) {
  std::string where = node && node->location != kNoLocation
                          ? graph.locations[node->location].describe()
                          : "";
  throw Error(ErrorId::ConfigNotSupported,
              "loss_normalization: tokens needs a loss that is one "
              "cross-entropy's mean over labels, and " +
                  why + (where.empty() ? "" : " (" + where + ")") +
                  "; leave it out for a mean over batches");
}

static bool isCrossEntropy(const Node &node) {
  const std::string &name = node.op.operator_name().name;
  return name == "aten::nll_loss_forward" || name == "aten::nll_loss2d_forward";
}

/// Those that the value is computed from.
static std::vector<const Node *> findCrossEntropies(const JointGraph &graph,
                                                    ValueId of) {
  std::set<ValueId> needed{of};
  std::vector<const Node *> found;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (std::ranges::none_of(node->results, [&](ValueId result) {
          return needed.contains(result);
        }))
      continue;
    if (isCrossEntropy(*node))
      found.push_back(&*node);
    for (const Argument &argument : node->arguments)
      needed.insert(argument.tensors.begin(), argument.tensors.end());
  }
  return found;
}

at::Tensor fsdp::capture::computeLabelShare(const JointGraph &graph,
                                            Recorder &recorder,
                                            const at::Tensor &loss) {
  std::vector<const Node *> found =
      findCrossEntropies(graph, recorder.lookup(loss));
  if (found.empty())
    refuse(graph, nullptr, "this one is computed from none");
  if (found.size() > 1)
    refuse(graph, found.front(),
           "this one is computed from " + std::to_string(found.size()));
  const Node &node = *found.front();
  // self, target, weight, reduction, ignore_index
  if (node.arguments[2].tensors.front() != kNoValue)
    refuse(graph, &node, "this one weighs classes");
  if (node.arguments[3].value.toInt() != at::Reduction::Mean)
    refuse(graph, &node, "this one's is no mean");
  at::Tensor target = at::functionalization::impl::to_functional_tensor(
      recorder.getMeta(node.arguments[1].tensors.front()));
  double count = std::max<double>(1, static_cast<double>(target.numel()));
  return target.ne(node.arguments[4].value.toInt())
      .sum()
      .to(c10::kFloat)
      .mul(1 / count);
}

at::Tensor fsdp::capture::weighLoss(const at::Tensor &loss,
                                    const at::Tensor &share) {
  // The mean over no labels is a NaN.
  return loss.to(c10::kFloat).masked_fill(share.eq(0), 0).mul(share);
}
