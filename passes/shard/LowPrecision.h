//===- LowPrecision.h - What passes of narrow types share -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_SHARD_LOWPRECISION_H
#define FSDP_PASSES_SHARD_LOWPRECISION_H

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>
#include <tuple>

namespace fsdp {

/// The casts that a pass makes because it was asked to, as reports list them.
class CastList {
public:
  void add(llvm::StringRef name, mlir::Type from, mlir::Type to);
  /// Behind those that the module lists, in the order of names and types.
  void appendTo(mlir::ModuleOp module, llvm::StringRef cause) const;

private:
  struct Row {
    mlir::Type from, to;
    int64_t count = 0;
  };
  /// By name and both types as text.
  std::map<std::tuple<std::string, std::string, std::string>, Row> rows;
};

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_LOWPRECISION_H
