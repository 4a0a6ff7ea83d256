//===- Number.h - Numbers computed from sizes -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What torch.export computes with sizes: Python's numbers and operations, and
// the functions that its symbolic expressions use for them.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_SYMBOLIC_NUMBER_H
#define FSDP_IR_CAPTURE_SYMBOLIC_NUMBER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <variant>

namespace fsdp::capture {

/// One of Python's int (within 64 bits), float and bool.
using Number = std::variant<int64_t, double, bool>;

/// Python's bool(): whether the number is not zero.
bool isTrue(const Number &number);
double toDouble(const Number &number);
/// "3", "1.5", "True".
std::string toString(const Number &number);

/// Whether `callNumberFunction` knows the name.
bool isNumberFunction(llvm::StringRef name);

/// Applies one of Python's operators (`floordiv`, `mod`, `lt`), functions
/// (`max`, `round`, `trunc`) or torch.export's names for them (`FloorDiv`,
/// `IntTrueDiv`, `sym_max`), with Python's rules: `//` and `%` round down,
/// `round` to even, `/` gives a float. `name` is the last part of a dotted
/// one. Throws Error (DynamicDimension) for unknown names, a wrong number of
/// arguments, division by zero and results beyond 64 bits.
Number callNumberFunction(llvm::StringRef name,
                          llvm::ArrayRef<Number> arguments);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_SYMBOLIC_NUMBER_H
