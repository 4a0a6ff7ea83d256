//===- NormRows.h - What became of written norms ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_FSDP_NORMROWS_H
#define FSDP_IR_FSDP_NORMROWS_H

#include "llvm/ADT/StringRef.h"

namespace fsdp {

/// On a module: of RMS norms that the model writes out, {module, source, count}
/// of those that are LibTorch's, and `why` of those that are not. Absent: they
/// are as the model says.
inline constexpr llvm::StringLiteral kNormsAttr = "fsdp.norms";

} // namespace fsdp

#endif // FSDP_IR_FSDP_NORMROWS_H
