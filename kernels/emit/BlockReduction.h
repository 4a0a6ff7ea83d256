//===- BlockReduction.h - Sums and greatest numbers on a GPU ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_KERNELS_EMIT_BLOCKREDUCTION_H
#define FSDP_KERNELS_EMIT_BLOCKREDUCTION_H

#include "kernels/emit/Code.h"
#include "plan/Kernels.h"

namespace fsdp {

/// Threads that exchange numbers without shared memory.
inline constexpr unsigned kWarp = 32;

/// A thread's place among those that have a row: `count` of them, a power of
/// two, at most 32 of one warp, or a whole block.
struct RowThreads {
  unsigned count;
  llvm::Value *thread; ///< of the block, 32 bits
  llvm::Value *number; ///< of those that have the row, 64 bits
};

/// Waits for all threads of the block; all of them reach it.
void waitForBlock(Code &code);

/// A reduction over a row's columns by its threads: each has a vector of
/// partial results, which become one, those of a warp by exchange, and those of
/// a block in shared memory. The order follows from the numbers of threads and
/// lanes alone.
class BlockReduction {
public:
  BlockReduction(Code &code, KernelOpKind kind, const RowThreads &threads,
                 unsigned lanes);

  void begin();
  /// `isThere`: whether there are such columns; null: there are.
  void take(llvm::Value *value, llvm::Value *isThere);
  /// The row's result, in all of its threads, all of which call it.
  llvm::Value *finish();

private:
  llvm::Value *combine(llvm::Value *x, llvm::Value *y);
  llvm::Constant *identity(llvm::Type *type);
  llvm::Value *exchange(llvm::Value *x, unsigned distance);
  llvm::Value *combineThreads(llvm::Value *x, unsigned count);
  llvm::Value *combineWarps(llvm::Value *x);

  Code &code;
  bool isSum;
  RowThreads threads;
  llvm::Type *vector;
  llvm::AllocaInst *partial;
};

} // namespace fsdp

#endif // FSDP_KERNELS_EMIT_BLOCKREDUCTION_H
