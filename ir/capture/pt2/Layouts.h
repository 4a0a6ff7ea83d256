//===- Layouts.h - Strides that an export relies on -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// torch.export leaves out `contiguous()` where a tensor is contiguous on the
// device that it ran on. Kernels of another device may give the same tensor in
// other strides, of which the view behind it cannot be had; there PyTorch would
// have made the copy.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_PT2_LAYOUTS_H
#define FSDP_IR_CAPTURE_PT2_LAYOUTS_H

#include "ir/capture/pt2/Json.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace fsdp::capture {

/// Makes the first operand of a call, whose arguments are `stack`, contiguous
/// if `op` is a view that its strides do not allow. Throws c10::Error, as an
/// operator does, for strides that the model gives as numbers (as_strided) if
/// `exported`, what the archive says of that operand, has others; null if it
/// says nothing.
void fitLayout(const c10::OperatorHandle &op, std::vector<c10::IValue> &stack,
               const json::Object *exported);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_LAYOUTS_H
