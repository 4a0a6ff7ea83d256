//===- Enums.h - Enumerations of torch.export archives ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The numbers in an archive are torch.export's own, not LibTorch's.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_PT2_ENUMS_H
#define FSDP_IR_CAPTURE_PT2_ENUMS_H

#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

namespace fsdp::capture {

/// Throw Error (ModelNotSupported) for numbers that have no counterpart.
c10::ScalarType getPt2ScalarType(int64_t number);
c10::MemoryFormat getPt2MemoryFormat(int64_t number);
/// Accepts the strided layout only.
void checkPt2Layout(int64_t number);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_ENUMS_H
