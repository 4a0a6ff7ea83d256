//===- FlexMasks.h - Masks of flex_attention --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_PT2_FLEXMASKS_H
#define FSDP_IR_CAPTURE_PT2_FLEXMASKS_H

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace fsdp::capture {

/// The masks of a model by what makes them: layers whose functions say the same
/// get one tensor, which is read once.
using FlexMasks = std::map<std::string, at::Tensor>;

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_FLEXMASKS_H
