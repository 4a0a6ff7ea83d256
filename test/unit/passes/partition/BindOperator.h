//===- BindOperator.h - What LibTorch is given for an op --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_PASSES_PARTITION_BINDOPERATOR_H
#define FSDP_TEST_UNIT_PASSES_PARTITION_BINDOPERATOR_H

#include "RunOperator.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace fsdp::test {

at::ScalarType toDtype(mlir::Type type);

/// Operands of an op of the dialect, as `runOperator` takes them.
std::vector<TensorArgument>
bindTensors(mlir::Operation *op, const std::vector<at::Tensor> &operands);

/// Static arguments.
std::vector<StaticArgument> bindStatics(mlir::DictionaryAttr property);

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_PASSES_PARTITION_BINDOPERATOR_H
