//===- Inputs.h - Arguments of a scripted forward ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_TORCHSCRIPT_INPUTS_H
#define FSDP_IR_CAPTURE_TORCHSCRIPT_INPUTS_H

#include "ir/capture/joint/JointCapture.h"
#include "ir/capture/request/CaptureOptions.h"

#include <ATen/core/function_schema.h>

namespace fsdp::capture {

/// The arguments of `forward`, made of the tensors whose shapes the user gives.
/// A tensor is named after its argument; one in a container after argument and
/// key, as torch.export names its inputs: `batch_x` is `batch["x"]`, `pair_0`
/// the first of a tuple or list, `step_loss` a field of a NamedTuple. What is
/// not given keeps its default.
class TorchScriptInputs {
public:
  /// Throws Error (InputNotKnown) if a shape belongs to no argument. `schema`
  /// and `shapes` outlive the object.
  TorchScriptInputs(const c10::FunctionSchema &schema,
                    const std::vector<InputShape> &shapes);

  /// Declares the inputs in the order of the arguments, a container's in that
  /// of its keys. Throws Error (InputNotKnown, InputShapeMissing).
  std::vector<c10::IValue> declare(JointCapture &capture);

private:
  struct Given {
    const InputShape *shape;
    std::string key; ///< behind "argument_"; empty for the argument itself
  };

  void assign(const InputShape &shape);
  c10::IValue declare(const c10::Argument &argument,
                      const std::vector<Given> &given, JointCapture &capture);
  std::optional<c10::IValue> declareType(const c10::Argument &argument,
                                         const c10::TypePtr &type,
                                         const std::vector<Given> &given,
                                         JointCapture &capture);
  std::vector<at::Tensor> declareRow(const c10::Argument &argument,
                                     const std::vector<std::string> &keys,
                                     const std::vector<Given> &given,
                                     JointCapture &capture);
  std::string list() const;

  std::vector<c10::Argument> arguments; ///< without self
  std::vector<std::vector<Given>> givenFor;
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_TORCHSCRIPT_INPUTS_H
