//===- Location.h - Where the interpreter is --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_TORCHSCRIPT_LOCATION_H
#define FSDP_IR_CAPTURE_TORCHSCRIPT_LOCATION_H

#include "ir/capture/joint/Recorder.h"

#include <ATen/record_function.h>
#include <torch/csrc/jit/api/module.h>

#include <memory>

namespace fsdp::capture {

/// While it lives, the recorder is told of the module path and source line at
/// which TorchScript's interpreter calls operators on this thread.
class TorchScriptLocation {
public:
  TorchScriptLocation(const torch::jit::Module &root, Recorder &recorder);
  ~TorchScriptLocation();
  TorchScriptLocation(const TorchScriptLocation &) = delete;
  TorchScriptLocation &operator=(const TorchScriptLocation &) = delete;

private:
  struct Observer;
  std::unique_ptr<Observer> observer;
  at::CallbackHandle handle;
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_TORCHSCRIPT_LOCATION_H
