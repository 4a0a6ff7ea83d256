//===- SourcePlace.h - Where in a model an op comes from --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_SOURCEPLACE_H
#define FSDP_PASSES_ANALYSIS_SOURCEPLACE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"

#include <string>

namespace fsdp {

/// The module path and the source line of a location that are nearest to the
/// outside. Either may be empty. Valid as long as the context.
struct SourcePlace {
  llvm::StringRef module;    ///< "layers.0.mlp"
  mlir::FileLineColLoc line; ///< null if unknown

  explicit SourcePlace(mlir::Location location);
  /// "model.py:12", or empty.
  std::string getSource() const;
  /// "layers.0.mlp (model.py:12)", or what is known of it.
  std::string describe() const;
};

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_SOURCEPLACE_H
