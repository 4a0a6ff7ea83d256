//===- CaptureOptions.h - What is captured, and of what ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_REQUEST_CAPTUREOPTIONS_H
#define FSDP_IR_CAPTURE_REQUEST_CAPTUREOPTIONS_H

#include "ir/capture/request/CaptureRequest.h"
#include "ir/capture/request/Dims.h"
#include "ir/capture/request/Target.h"
#include "support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp {

/// Shape of one input, for archives that do not state it (--input=x:f32[4,64]).
struct InputShape {
  std::string name;
  std::string dtype; ///< as MLIR prints it: f32, i64, i1, …
  std::vector<int64_t> shape;
};

struct CaptureOptions {
  std::string path;
  std::vector<InputShape> inputs;
  CaptureRequest request;
  /// What the program will run on: decides which fused operators are captured.
  Target target;
  std::vector<DimValues> dims;
  bool keepExportedDims = false; ///< as `DimSizes::keepExported`
};

/// Something in the model that capture cannot take.
struct CaptureProblem {
  ErrorId id;
  std::string message; ///< with module path and source line where known
};

} // namespace fsdp

#endif // FSDP_IR_CAPTURE_REQUEST_CAPTUREOPTIONS_H
