//===- AddProducts.h - Products add to what they are added to ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_KERNELS_ADDPRODUCTS_H
#define FSDP_PASSES_KERNELS_ADDPRODUCTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// Makes sums of a product and of what dies there one operator, `aten.addmm`,
/// where the product stands: nothing lives longer than before. What is rounded
/// changes. Returns where the products are from.
llvm::SmallVector<mlir::Location> addProducts(mlir::func::FuncOp program);

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_ADDPRODUCTS_H
