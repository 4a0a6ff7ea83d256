//===- Schema.h - What an ATen operator takes and returns -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_ATEN_SCHEMA_H
#define FSDP_IR_ATEN_SCHEMA_H

#include "ir/aten/Flags.h"

#include "mlir/IR/Attributes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace fsdp::aten {

/// Type of an argument or result. Symbolic kinds of the schema (SymInt, …) are
/// their plain ones: a program has static shapes.
enum class Kind : uint8_t {
  Tensor,
  TensorList,
  OptionalTensorList, // a list with holes
  Int,
  Float,
  Bool,
  Scalar, // Int, Float or Bool, by the attribute's own kind
  String,
  DType,
  MemoryFormat,
  IntList,
  FloatList,
  BoolList,
  ScalarList,
  StringList,
  // Below: decided by the runtime, never part of a program.
  Layout,
  Device,
  Generator,
  Other,
};

/// "int list", for messages.
llvm::StringRef getKindName(Kind kind);

struct Argument {
  llvm::StringRef name;
  Kind kind = Kind::Other;
  bool optional = false; // `?`: may be None
  bool hasDefault = false;
  bool writes = false;
  char alias = 0;              // letter of the alias set, 0 for none
  int32_t listSize = 0;        // `int[2]`: one number stands for two; 0 for any
  llvm::StringRef defaultText; // as the schema prints it

  /// An operand of the op, not an entry of its property.
  bool isTensor() const { return kind <= Kind::OptionalTensorList; }
  bool isList() const {
    return kind == Kind::TensorList || kind == Kind::OptionalTensorList;
  }
  /// The runtime's choice: never present in a program.
  bool isRuntimeChoice() const {
    return kind >= Kind::Layout || name == "pin_memory";
  }
  /// May be left out: has a default or may be None.
  bool isOmittable() const { return hasDefault || optional; }

  /// The default in normal form; null if there is none or if it is None.
  mlir::Attribute getDefault(mlir::MLIRContext *context) const;
};

struct Result {
  llvm::StringRef name; // empty for most
  Kind kind = Kind::Other;
  bool writes = false;
  char alias = 0;

  bool isTensor() const { return kind <= Kind::OptionalTensorList; }
};

struct Schema {
  llvm::StringRef name; // "aten.add.Tensor"
  // "(Tensor self, …) -> Tensor", as Facts.def corrects it.
  llvm::StringRef text;
  uint32_t flags = 0;
  llvm::SmallVector<Argument, 0> arguments;
  llvm::SmallVector<Result, 0> results;

  bool is(Flags flag) const { return flags & flag; }
  /// Writes one of its arguments: in place or `out=`.
  bool writes() const;
  const Argument *find(llvm::StringRef argument) const;
  /// Index into `arguments` of what schema result `index` is a view of, or -1.
  /// Results of in-place ops are the argument itself, not views of it.
  int32_t getViewSource(unsigned index) const;
};

/// The LibTorch version whose operators the table holds: "2.11.0".
llvm::StringRef getTableVersion();

/// Number of operators; their schemas by index, in the order of their names.
size_t getNumSchemas();
const Schema &getSchema(size_t index);

/// Names alone, without reading the schema.
llvm::StringRef getSchemaName(size_t index);
uint32_t getSchemaFlags(size_t index);
/// Whether the schema writes an argument, without reading all of it.
bool getSchemaWrites(size_t index);

/// Schema of "aten.add.Tensor", or null. Schemas live as long as the process
/// and are read on first use, from any thread.
const Schema *lookupSchema(llvm::StringRef opName);

/// Schema of an op of the dialect, or null for ops of others. Constant time.
const Schema *lookupSchema(mlir::Operation *op);

} // namespace fsdp::aten

#endif // FSDP_IR_ATEN_SCHEMA_H
