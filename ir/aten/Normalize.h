//===- Normalize.h - Normal form of static arguments ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_ATEN_NORMALIZE_H
#define FSDP_IR_ATEN_NORMALIZE_H

#include "ir/aten/Schema.h"

namespace fsdp::aten {

/// `value` in the normal form of `argument`, null where it is left out.
mlir::Attribute normalizeArgument(const Argument &argument,
                                  mlir::Attribute value);

} // namespace fsdp::aten

#endif // FSDP_IR_ATEN_NORMALIZE_H
