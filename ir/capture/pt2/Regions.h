//===- Regions.h - Sub-graphs of an exported graph --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A higher-order operator calls graphs that are among its arguments:
//
//   wrap_with_autocast("cpu", bf16, true, false, GRAPH, x, weight)
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_PT2_REGIONS_H
#define FSDP_IR_CAPTURE_PT2_REGIONS_H

#include "ir/capture/pt2/Json.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <vector>

namespace fsdp::capture {

struct Pt2Region {
  enum class Kind {
    Plain,    ///< runs its graph
    Grad,     ///< runs it with gradients on or off
    Autocast, ///< runs it under torch.autocast
    Branch,   ///< runs the first or the second of its graphs
    /// flex_attention: queries, keys and values are the settings, what changes
    /// scores and what masks them the graphs
    Attention,
  };
  Kind kind = Kind::Plain;
  /// Arguments before the graphs: rules, or the condition of a branch.
  std::vector<const json::Value *> settings;
  std::vector<const json::Object *> graphs; ///< at least one; two of some
  /// Arguments behind them: the graphs' inputs, some of them in lists.
  std::vector<const json::Value *> operands;
};

/// Rules of a region of kind Autocast.
struct Pt2Autocast {
  c10::DeviceType device = c10::kCPU;
  c10::ScalarType dtype = c10::ScalarType::BFloat16;
  bool enabled = false;
};

/// Calls `visit` with every graph among the node's arguments.
void forEachPt2SubGraph(const json::Object &node,
                        llvm::function_ref<void(const json::Object &)> visit);

/// The region of a node whose target is `torch.ops.higher_order.NAME`. Throws
/// Error, with the way out, for all that cannot be captured.
Pt2Region readPt2Region(const json::Object &node, llvm::StringRef name);

/// Of a region of kind Autocast.
Pt2Autocast readPt2Autocast(const Pt2Region &region);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_REGIONS_H
