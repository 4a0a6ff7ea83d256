//===- NormRows.h - What became of written norms, as rows -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_MODULE_NORMROWS_H
#define FSDP_IR_CAPTURE_MODULE_NORMROWS_H

#include "ir/capture/joint/JointGraph.h"

#include "mlir/IR/Builders.h"

namespace fsdp::capture {

/// Equal rows once, in the order of their first, each with its `count`.
mlir::ArrayAttr countRows(mlir::Builder &builder,
                          llvm::ArrayRef<mlir::DictionaryAttr> rows);

/// `fsdp.norms`, equal rows once.
mlir::ArrayAttr describeNorms(mlir::Builder &builder,
                              const std::vector<NotedNorm> &norms);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_MODULE_NORMROWS_H
