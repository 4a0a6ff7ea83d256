//===- Backwards.h - Backwards that torch.export dropped --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An archive says nothing of an autograd.Function, whose forward is traced like
// any other code. What is left of it are the calls on the way to its operators:
//
// - Not strict: those of functions called "forward". There is one for each
//   module that the node is in, and one more for the Function.
// - Strict: "autograd.Function" among the node's sources.
// - A Function that returns its input leaves view_as(x, x), which LibTorch puts
//   in so that the result has a gradient of its own.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_PT2_BACKWARDS_H
#define FSDP_IR_CAPTURE_PT2_BACKWARDS_H

#include "ir/capture/joint/LostGradients.h"
#include "ir/capture/pt2/Json.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>
#include <optional>

namespace fsdp::capture {

/// The Function that the node is a part of, by the traces that it left.
/// `differentiates` is whether gradients are on where the node runs; what comes
/// from a user's own no_grad has no backward to lose.
std::optional<LostBackward> findPt2LostBackward(const json::Object &node,
                                                bool differentiates);

/// What a graph's nodes say of torch.utils.checkpoint, and which backwards they
/// lost, each once.
class Pt2Backwards {
public:
  /// To be called with each node before it runs, and with what gives the
  /// tensors that it gets.
  void inspect(const json::Object &node, bool differentiates,
               llvm::function_ref<std::vector<at::Tensor>()> getTensors);

  const std::vector<LostBackward> &getLost() const { return lost; }
  /// Paths of modules that a checkpoint begins in, one for each.
  const std::vector<std::string> &getCheckpoints() const { return checkpoints; }

private:
  void noteCheckpoint(const json::Object &node);
  void add(LostBackward found);

  std::vector<LostBackward> lost;
  std::map<std::string, size_t> known; ///< positions in `lost`
  std::vector<std::string> checkpoints;
  /// The next node is the first of a checkpoint called in this module.
  std::optional<std::string> beginsIn;
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_BACKWARDS_H
