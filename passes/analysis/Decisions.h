//===- Decisions.h - What passes say of their decisions ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decisions are MLIR's remarks (mlir/IR/Remarks.h), which cost nothing unless
// somebody asks for them (--remarks-filter). "Passed" is what a pass did,
// "missed" what it left as it was, and "analysis" what is told beside.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_ANALYSIS_DECISIONS_H
#define FSDP_PASSES_ANALYSIS_DECISIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/Remarks.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp {

/// Whether anybody asked: what remarks say is worked out only then.
bool wantsRemarks(mlir::Operation *op);

/// Called `name`, of the pass's `category`, in a program. Valid as long as its
/// texts and the program's name are.
mlir::remark::RemarkOpts nameDecision(llvm::StringRef category,
                                      llvm::StringRef name,
                                      mlir::func::FuncOp program);

/// The module `path`, at the user's line that `inside`, one of its ops, is
/// from.
mlir::Location getModuleLocation(llvm::StringRef path, mlir::Operation *inside);

/// Of one module, what its forward makes and backward reads.
struct KeptActivations {
  std::string module;
  mlir::Operation *first = nullptr; ///< of the module's forward
  int64_t bytes = 0;                ///< of whole tensors, views left out
  int64_t tensors = 0;
};

/// For each of the module paths that forward has ops of, in the order of these;
/// of modules within each other an op belongs to the innermost.
std::vector<KeptActivations>
listKeptActivations(mlir::func::FuncOp program,
                    llvm::ArrayRef<std::string> modules);

/// The buckets that are named as modules are, in the order of the states.
std::vector<std::string> listBucketNames(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_DECISIONS_H
