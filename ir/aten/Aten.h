//===- Aten.h - The aten dialect --------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One op for each overload that LibTorch dispatches, `aten.<name>.<overload>`.
//
// An op's tensors are its operands, in the order of the schema, lists and
// optional ones flattened. All other arguments are entries of one dictionary
// property. Normal form: an argument that equals its default, or that is None,
// is left out; so are layout, device, generator and pin_memory, which the
// runtime decides. Two more entries describe the operands where they are not
// one for each tensor argument:
//   segments  array<i32>, one for each tensor argument up to the last present
//             one: how many tensors, -1 for None; absent if all are 1
//   present   array<i1>, one for each member of a list of optional tensors,
//             false for a hole; absent without holes
//
// Kinds: int i64, float f64, bool BoolAttr, str StringAttr, dtype TypeAttr,
// lists ArrayAttr of these, Scalar i64, f64 or BoolAttr by its own kind,
// memory_format one of "contiguous", "preserve", "channels_last",
// "channels_last_3d".
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_ATEN_ATEN_H
#define FSDP_IR_ATEN_ATEN_H

#include "ir/aten/Layout.h"
#include "ir/aten/Schema.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/TensorEncoding.h"

#include "ir/aten/Dialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/aten/Attributes.h.inc"

namespace fsdp::aten {

/// One tensor argument of a call: a tensor, None, or a list with or without
/// holes. Does not own the list.
class TensorArgument {
public:
  /// A tensor; the null value is None.
  TensorArgument(mlir::Value tensor = {}) : tensor(tensor) {}
  /// A list; null values are holes.
  TensorArgument(llvm::ArrayRef<mlir::Value> tensors)
      : tensors(tensors), list(true) {}

  bool isList() const { return list; }
  bool isNone() const { return !list && !tensor; }
  mlir::Value getTensor() const { return tensor; }
  llvm::ArrayRef<mlir::Value> getTensors() const { return tensors; }

private:
  mlir::Value tensor;
  llvm::ArrayRef<mlir::Value> tensors;
  bool list = false;
};

/// Creates `name` ("aten.add.Tensor", which must exist) with one entry of
/// `tensors` for each tensor argument in the schema's order (missing ones at
/// the end are None) and static arguments of the kinds above, which need not
/// be in normal form: defaults, nulls and the runtime's choices are dropped,
/// ints given for floats converted. The result verifies if they fit the schema.
mlir::Operation *buildAtenOp(mlir::OpBuilder &builder, mlir::Location loc,
                             llvm::StringRef name,
                             llvm::ArrayRef<TensorArgument> tensors,
                             llvm::ArrayRef<mlir::NamedAttribute> arguments,
                             mlir::TypeRange results);

/// A tensor argument of an existing op, with its members (null for holes).
struct BoundTensors {
  const Argument *argument = nullptr;
  bool none = false;
  llvm::SmallVector<mlir::Value, 1> tensors;
};

/// All tensor arguments of an op of the dialect, one for each of the schema.
llvm::SmallVector<BoundTensors> getTensorArguments(mlir::Operation *op);

/// The static argument `name` of an op of the dialect: what the op says, else
/// the default. Null for None.
mlir::Attribute getStaticArgument(mlir::Operation *op, llvm::StringRef name);

/// Number of op results of each schema result; a list takes what the others
/// leave.
llvm::SmallVector<unsigned> getResultCounts(mlir::Operation *op);

/// The operand whose storage `result` may share, or null: null also for
/// results of in-place ops, which are the operand itself, and for ops of other
/// dialects.
mlir::Value getViewSource(mlir::OpResult result);

} // namespace fsdp::aten

#endif // FSDP_IR_ATEN_ATEN_H
