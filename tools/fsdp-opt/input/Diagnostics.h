//===- Diagnostics.h - MLIR's diagnostics inside an error -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_INPUT_DIAGNOSTICS_H
#define FSDP_TOOLS_FSDPOPT_INPUT_DIAGNOSTICS_H

#include "support/Error.h"

#include "mlir/IR/Diagnostics.h"

#include <string>

namespace fsdp {

/// Keeps a line for stderr until the end, since an error's line comes first.
void addNote(std::string line);

/// Keeps a line that is printed in front of all notes.
void addWarning(std::string line);

/// Prints the kept lines.
void printNotes();

/// Keeps the errors that are emitted during its life, so that they can be
/// shown below the line that names the error; warnings and remarks become
/// notes.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(mlir::MLIRContext *context);

  /// An error of `id` that says `message` and then the kept diagnostics.
  Error makeError(ErrorId id, const std::string &message) const;

private:
  std::string errors;
  mlir::ScopedDiagnosticHandler handler;
};

/// `loc` for a person: module path and source line, as far as they are known.
std::string describeLocation(mlir::Location loc);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_INPUT_DIAGNOSTICS_H
