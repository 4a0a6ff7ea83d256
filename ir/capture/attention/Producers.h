//===- Producers.h - Which operator makes a value ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_ATTENTION_PRODUCERS_H
#define FSDP_IR_CAPTURE_ATTENTION_PRODUCERS_H

#include "ir/capture/joint/JointGraph.h"

#include <unordered_map>

namespace fsdp::attention {

/// The nodes of a joint graph by their results; the graph may grow meanwhile.
class Producers {
public:
  explicit Producers(const capture::JointGraph &graph) : graph(graph) {}

  /// Null for what no operator makes; valid until the graph grows.
  const capture::Node *find(capture::ValueId value) {
    for (; known < graph.nodes.size(); ++known)
      for (capture::ValueId result : graph.nodes[known].results)
        nodeOf[result] = known;
    auto it = nodeOf.find(value);
    return it == nodeOf.end() ? nullptr : &graph.nodes[it->second];
  }

private:
  const capture::JointGraph &graph;
  size_t known = 0; // nodes in `nodeOf`
  std::unordered_map<capture::ValueId, size_t> nodeOf;
};

} // namespace fsdp::attention

#endif // FSDP_IR_CAPTURE_ATTENTION_PRODUCERS_H
