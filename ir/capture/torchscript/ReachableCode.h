//===- ReachableCode.h - All code that a model may run ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_TORCHSCRIPT_REACHABLECODE_H
#define FSDP_IR_CAPTURE_TORCHSCRIPT_REACHABLECODE_H

#include <torch/csrc/jit/api/module.h>

#include <vector>

namespace fsdp::capture {

/// All functions that `forward` may call. Looks at their operators
/// (checkOperator). Throws Error: FileImplausible if calls nest without bound,
/// or make more code than anybody writes.
std::vector<torch::jit::Function *>
findReachableCode(const torch::jit::Module &module);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_TORCHSCRIPT_REACHABLECODE_H
