//===- ModuleFacts.h - What capture says of a module ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_MODULE_MODULEFACTS_H
#define FSDP_IR_CAPTURE_MODULE_MODULEFACTS_H

#include "ir/capture/joint/JointGraph.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp::capture {

/// The casts of mixed precision that are left in `graph`, and the limits of
/// dtypes that it narrowed, equal ones counted.
mlir::ArrayAttr describeCasts(mlir::Builder &builder, const JointGraph &graph);

/// What calls of attention became, those of one line counted.
mlir::ArrayAttr describeAttention(mlir::Builder &builder,
                                  const JointGraph &graph);

/// Adapters that capture put in, and what it was told of them.
void setAdapters(mlir::ModuleOp module, const AdapterTable &table);

/// Where a graph draws noise for its embeddings.
void setNoise(mlir::ModuleOp module, const JointGraph &graph);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_MODULE_MODULEFACTS_H
