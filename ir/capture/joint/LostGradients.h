//===- LostGradients.h - Gradients that an export left out ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// torch.export traces through the forward of an autograd.Function and drops its
// backward. What is left would train with other gradients than in PyTorch.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_JOINT_LOSTGRADIENTS_H
#define FSDP_IR_CAPTURE_JOINT_LOSTGRADIENTS_H

#include "ir/capture/joint/JointGraph.h"
#include "support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace fsdp::capture {

/// A call whose own backward is not in the model file.
struct LostBackward {
  enum class Kind : uint8_t {
    Function,   ///< of an autograd.Function
    Identity,   ///< of one that returns what it is given, or a backward hook
    Checkpoint, ///< torch.utils.checkpoint(use_reentrant=True)
    Hook,       ///< on a gradient
  };
  Kind kind = Kind::Function;
  /// "Relu3.apply"; empty if it cannot be told. Of a hook, whose gradient: "of
  /// parameter 'a.weight'".
  std::string function;
  Location location;   ///< of the call
  std::string forward; ///< "model.py:7", of its forward; may be empty

  /// "'Relu3.apply' (act at model.py:41, its forward at model.py:7)"
  std::string describe() const;
  /// What training without it is.
  std::string describeAccepted() const;
};

/// Why a loss has gradients that are sparse; nothing if no operator asks for
/// it.
std::optional<std::string> describeSparseGradient(const JointGraph &graph);

/// The error for at least one of them.
Error explainLostBackwards(const std::vector<LostBackward> &lost);

/// Trainable parameters without a gradient, of a graph whose forward is
/// complete: those that the loss is computed from, and why they get none
/// ("'a.weight', which aten::linear (a at model.py:3) reads under no_grad").
/// What only shapes are taken from does not count.
std::vector<std::string>
explainLostGradients(const JointGraph &graph, ValueId loss,
                     const std::vector<size_t> &states);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_LOSTGRADIENTS_H
