//===- CaptureLoader.h - Load model capture when it is needed ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_INPUT_CAPTURELOADER_H
#define FSDP_TOOLS_FSDPOPT_INPUT_CAPTURELOADER_H

#include "ir/capture/Capture.h"

namespace fsdp {

/// The entry points of libfsdp-capture.so, which lies in the lib folder beside
/// the executable's; stays loaded for the process's life. Throws fsdp::Error
/// (CaptureNotInstalled).
const CaptureLibrary &loadCaptureLibrary();

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_INPUT_CAPTURELOADER_H
