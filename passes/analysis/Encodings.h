//===- Encodings.h - Of what scales are ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_ENCODINGS_H
#define FSDP_PASSES_ANALYSIS_ENCODINGS_H

#include "ir/fsdp/Fsdp.h"

namespace fsdp {

/// The greatest value of which `maximum` is that of all ranks, perhaps copied
/// from another memory; null if it is of none.
inline AmaxOp getAmax(AllReduceOp maximum) {
  mlir::Value greatest = maximum.getInput();
  if (auto copy = greatest.getDefiningOp<CopyOp>())
    greatest = copy.getInput();
  return greatest.getDefiningOp<AmaxOp>();
}

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_ENCODINGS_H
