//===- WindowCalls.h - Calls of attention of a band of keys -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flash attention's kernel for GPUs is told a window. CPUs' has masks alone:
// there a call is one of blocks of queries with the keys of their band.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PLAN_WINDOWCALLS_H
#define FSDP_PASSES_PLAN_WINDOWCALLS_H

#include "passes/analysis/TensorOps.h"

#include <optional>

namespace fsdp {

/// Of as many keys as queries, query i sees keys i - left to i + right; those
/// to an end where nothing is said.
struct Band {
  std::optional<int64_t> left, right;
};

/// Calls of `aten._flash_attention_forward`, or of its gradient, with other
/// operands. These are [batch, tokens, heads, width], sums [batch, heads,
/// tokens]; all are built by `ops`.
class WindowCalls {
public:
  static constexpr int64_t kTokens = 1;    ///< of operands
  static constexpr int64_t kSumTokens = 2; ///< of sums

  WindowCalls(mlir::Operation *op, TensorOps &ops, bool isOnCpu);

  bool isBackward() const { return getName(op).ends_with("_backward"); }
  mlir::Value get(llvm::StringRef name) const;

  /// What some keys make of queries, in f32, contiguous: the output, and the
  /// logarithm of the sum that it was divided by.
  struct Partial {
    mlir::Value output, sum;
  };
  Partial attend(mlir::Value query, mlir::Value key, mlir::Value value,
                 Band band);

  /// What backward reads by tokens of its queries.
  struct OfQueries {
    mlir::Value gradient, query, output, sum;
  };
  /// In f32, contiguous.
  struct Gradients {
    mlir::Value query, key, value;
  };
  Gradients differentiate(OfQueries of, mlir::Value key, mlir::Value value,
                          Band band);

  /// `sum` with `part` added to its rows from `begin` on.
  mlir::Value addRows(mlir::Value sum, mlir::Value part, int64_t begin);
  /// Rows of it, contiguous.
  mlir::Value take(mlir::Value value, int64_t dim, int64_t begin, int64_t end);

private:
  /// Queries of a call for CPUs, and the keys of their band.
  struct Block {
    int64_t begin, end, firstKey, endKey;
  };
  llvm::SmallVector<Block> chooseBlocks(int64_t length, Band band) const;
  mlir::Value makeMask(const Block &block, Band band, mlir::Type element);
  Partial attendOnCpu(mlir::Value query, mlir::Value key, mlir::Value value,
                      Band band);
  Gradients differentiateOnCpu(OfQueries of, mlir::Value key, mlir::Value value,
                               Band band);
  mlir::Operation *tell(llvm::ArrayRef<mlir::Value> operands, Band band,
                        int64_t queries, int64_t keys);
  mlir::Value toSum(mlir::Value value);
  mlir::Value swap(mlir::Value value);
  mlir::Value toHeads(mlir::Value value, int64_t heads);
  mlir::Value addUpHeads(mlir::Value gradient, int64_t heads);

  mlir::Operation *op;
  TensorOps &ops;
  bool isOnCpu;
  llvm::SmallVector<llvm::StringRef> names; ///< of operands
};

} // namespace fsdp

#endif // FSDP_PASSES_PLAN_WINDOWCALLS_H
