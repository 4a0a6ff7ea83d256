//===- Guard.cpp - What a .pt may do --------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/torchscript/Guard.h"

#include "ir/capture/torchscript/Bounds.h"
#include "ir/capture/torchscript/ReachableCode.h"

#include <torch/csrc/jit/api/function_impl.h>

using namespace fsdp;
using namespace fsdp::capture;
namespace jit = torch::jit;

void capture::guardTorchScript(const jit::Module &module) {
  for (jit::Function *function : findReachableCode(module))
    if (function->isGraphFunction())
      putBounds(jit::toGraphFunction(*function).graph()->block());
}

GuardedRun::GuardedRun() { resetBounds(); }
