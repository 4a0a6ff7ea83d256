//===- Outputs.h - What a model returns, by name ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_JOINT_OUTPUTS_H
#define FSDP_IR_CAPTURE_JOINT_OUTPUTS_H

#include "ir/capture/joint/JointGraph.h"

#include <string>
#include <vector>

namespace fsdp::capture {

/// Where a tensor stands in what a model returned: keys, fields and positions,
/// from the outside to the inside.
struct OutputPath {
  std::vector<std::string> steps;
  /// Whether the first step is a name that the user gave (the key of a dict,
  /// the field of a class), not a position.
  bool isNamed = false;
};

/// A tensor that a model returned.
struct ReturnedTensor {
  OutputPath path;
  at::Tensor tensor;
  std::string value; ///< its name inside of the exported graph; may be empty
};

/// The tensors in what a TorchScript module returned: a tensor, or tuples,
/// lists, dicts and objects of them. Anything else is left out.
std::vector<ReturnedTensor> flattenReturned(const c10::IValue &returned);

/// Names for `returned`: "logits" and "hidden_states.0" under names of the
/// user's, else "output.1" by position, "output" for a single tensor. In a
/// training program the first is "loss", whatever else it may be called. The
/// position alone ("1") and the value's name in the exported graph are aliases.
std::vector<Output> nameOutputs(const std::vector<ReturnedTensor> &returned,
                                bool isInference);

/// The position of the output that `--loss=name` means, by the name that it has
/// without being the loss, or by an alias. Throws Error (OutputNotKnown) that
/// lists what there is.
size_t findOutput(const std::string &name,
                  const std::vector<ReturnedTensor> &returned);

/// Marks those outputs that are asked for, by name or alias, as kept; all, for
/// inference, if none is asked for. The loss is a result of its own and never
/// marked. Throws Error (OutputNotKnown) that lists what there is.
void selectOutputs(const std::vector<std::string> &requested, bool isInference,
                   std::vector<Output> &outputs);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_OUTPUTS_H
