//===- Bindings.h - The shapes that a model is captured at ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_REQUEST_BINDINGS_H
#define FSDP_IR_CAPTURE_REQUEST_BINDINGS_H

#include "ir/capture/request/CaptureOptions.h"

#include <string>
#include <vector>

namespace fsdp::capture {

/// The shapes of one program.
struct Binding {
  DimSizes dims;
  std::vector<InputShape> inputs;
  /// What distinguishes it from the model's other bindings, "s17=1024" or
  /// "x=4x64"; empty if it is the only one.
  std::string label;
};

/// The k-th binding takes the k-th size of each dimension that has several,
/// and the k-th shape of each input that has several; what has one holds for
/// all. Throws Error (InputNotKnown) if the numbers differ or
/// two bindings are equal.
std::vector<Binding> getBindings(const CaptureOptions &options);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_REQUEST_BINDINGS_H
