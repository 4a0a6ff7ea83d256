//===- Kinds.h - Rows of tables, by their names -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What attributes say by a row of support/Optimizers.def and Schedules.def.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_FSDP_KINDS_H
#define FSDP_IR_FSDP_KINDS_H

#include "support/Optimizers.h"
#include "support/Schedules.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpImplementation.h"

namespace fsdp {

// Errors list the names that there are.
mlir::FailureOr<OptimizerKind> parseOptimizerKind(mlir::AsmParser &parser);
mlir::FailureOr<ScheduleKind> parseScheduleKind(mlir::AsmParser &parser);

/// `{beta1 = 0.9}`: all that `kind` has.
mlir::DictionaryAttr getNumbers(mlir::MLIRContext *context, OptimizerKind kind,
                                const OptimizerNumbers &numbers);

/// `{beta1 = 9.0e-01}`: the type goes without saying.
void printGiven(mlir::AsmPrinter &printer, mlir::DictionaryAttr numbers);

/// Sets those that the dictionary has, which may be null.
void readNumbers(mlir::DictionaryAttr attr, OptimizerNumbers &numbers);

/// That each is a number that some schedule has, in its range.
mlir::LogicalResult
verifyScheduleNumbers(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                      mlir::DictionaryAttr numbers);

/// That each is a number that some optimizer has, in its range.
mlir::LogicalResult
verifyNumbers(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
              mlir::DictionaryAttr numbers);

} // namespace fsdp

#endif // FSDP_IR_FSDP_KINDS_H
