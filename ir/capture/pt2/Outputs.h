//===- Outputs.h - Names of what an exported program returns ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_PT2_OUTPUTS_H
#define FSDP_IR_CAPTURE_PT2_OUTPUTS_H

#include "ir/capture/joint/Outputs.h"
#include "ir/capture/pt2/Json.h"

namespace fsdp::capture {

/// Where each value that the program returns stands in what the model returned,
/// in order, those that are no tensors included; from the tree spec of the
/// archive's `graph_module`. Empty if it has none.
std::vector<OutputPath> readPt2OutputPaths(const json::Object &module);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_OUTPUTS_H
