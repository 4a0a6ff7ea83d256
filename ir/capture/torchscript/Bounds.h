//===- Bounds.h - Bounds of what a model's code makes -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_TORCHSCRIPT_BOUNDS_H
#define FSDP_IR_CAPTURE_TORCHSCRIPT_BOUNDS_H

#include <torch/csrc/jit/ir/ir.h>

namespace fsdp::capture {

/// Puts operators into the code that count iterations of loops, and elements of
/// texts and lists. What goes beyond the bounds throws in the interpreter.
void putBounds(torch::jit::Block *block);

/// Counts from zero again.
void resetBounds();

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_TORCHSCRIPT_BOUNDS_H
