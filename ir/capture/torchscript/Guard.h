//===- Guard.h - What a .pt may do ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A scripted model is a program, which capture runs. It may compute, and
// nothing else; and it comes to an end.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_TORCHSCRIPT_GUARD_H
#define FSDP_IR_CAPTURE_TORCHSCRIPT_GUARD_H

#include <torch/csrc/jit/api/module.h>

namespace fsdp::capture {

/// Looks at all code that `forward` can reach, before any of it runs. Throws
/// Error: OperatorNotAllowed for an operator that is not known to do nothing
/// but compute, CustomOperator for one of a library, FileImplausible if calls
/// nest without bound.
///
/// Then changes the code so that loops end, and texts and lists stay small: at
/// most a million iterations in all, and 16 million elements of what is made.
/// What goes further throws in the interpreter.
void guardTorchScript(const torch::jit::Module &module);

/// Between its beginning and its end one run is counted.
class GuardedRun {
public:
  GuardedRun();
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_TORCHSCRIPT_GUARD_H
