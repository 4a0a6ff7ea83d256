//===- SharedInputs.h - Inputs that were one tensor -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_PT2_SHAREDINPUTS_H
#define FSDP_IR_CAPTURE_PT2_SHAREDINPUTS_H

#include "ir/capture/pt2/Program.h"

#include "llvm/ADT/ArrayRef.h"

namespace fsdp::capture {

/// Of one tensor that was given for several inputs an export reads the last
/// input for all of them, and what the others are given changes nothing.
/// `objects`: Pt2Samples'. Throws Error (ModelNotSupported) if the program has
/// such inputs; those of which it reads none are no harm.
void checkSharedInputs(const Pt2Program &program,
                       llvm::ArrayRef<uint32_t> objects);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_SHAREDINPUTS_H
