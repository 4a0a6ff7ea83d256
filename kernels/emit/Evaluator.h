//===- Evaluator.h - Code of values -----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A value that has columns is computed where it is used, at some columns at a
// time; one that has one column, once for its row.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_KERNELS_EMIT_EVALUATOR_H
#define FSDP_KERNELS_EMIT_EVALUATOR_H

#include "kernels/Nest.h"
#include "kernels/emit/Code.h"
#include "kernels/emit/Lanes.h"

#include <map>
#include <utility>
#include <vector>

namespace fsdp {

/// Some columns of a loop, one a lane, and what was computed there.
struct Position {
  llvm::Value *column; ///< of the first lane that there is
  Lanes lanes;
  uint64_t within; ///< a column of the segment that they are in
  /// False where nothing may be stored; null: nowhere.
  llvm::Value *isThere = nullptr;
  using Values = std::map<std::pair<size_t, int64_t>, llvm::Value *>;
  Values known = {};  ///< by operation and shift
  Values loaded = {}; ///< as it lies in memory, by operand and shift
};

class Evaluator {
public:
  /// `pointers`: of operands' first elements, in the code's function, aligned
  /// to `alignment` bytes, or to their elements if these are larger.
  Evaluator(Code &code, const Nest &nest, std::vector<llvm::Value *> pointers,
            uint64_t alignment);

  /// Begins row number `row`; null: there is one, or it is a line.
  void beginRow(llvm::Value *row);
  /// Computes what has one column and can be once `level` reductions are
  /// complete.
  void computeUniform(unsigned level);
  /// What a reduction gave.
  void setUniform(uint32_t op, llvm::Value *value) { uniforms[op] = value; }

  /// Columns of an operation's value: those of `at`, `shift` further on.
  llvm::Value *evaluate(uint32_t op, int64_t shift, Position &at);
  /// All of `operands` at `at`: everything is read before something is stored.
  void store(llvm::ArrayRef<size_t> operands, Position &at);
  /// Asks for `count` columns from `first` on of the next row's operands that
  /// have so many columns in all, if they are side by side.
  void fetchNextRow(uint64_t columns, llvm::Value *first, unsigned count);
  /// Those of one column, where `isThere`, or everywhere.
  void storeUniform(llvm::ArrayRef<size_t> operands,
                    llvm::Value *isThere = nullptr);

private:
  LaneMemory memoryOf(size_t operand, int64_t shift, const Lanes &lanes);
  uint64_t alignmentOf(size_t operand, int64_t shift, const Lanes &lanes) const;
  llvm::Value *addressOf(size_t operand, llvm::Value *column, int64_t shift);
  llvm::Value *load(size_t operand, int64_t shift, Position &at);
  llvm::Value *evaluateNew(uint32_t op, int64_t shift, Position &at);
  llvm::Value *evaluateCat(const plan::KernelOpT &op, int64_t shift,
                           Position &at);
  llvm::Value *columnsAt(int64_t shift, const Position &at, llvm::Type *type);
  llvm::Value *compareColumns(const plan::KernelOpT &op, int64_t shift,
                              const Position &at);
  llvm::Value *computeScalar(uint32_t op);
  void spend(unsigned instructions);
  void makeScopes();
  void mark(llvm::Instruction *access, size_t operand);

  Code &code;
  const Nest &nest;
  std::vector<llvm::Value *> pointers;
  uint64_t alignment;
  std::vector<llvm::Value *> rowPointers; ///< by operand: of the row at hand
  std::vector<llvm::Value *> uniforms;    ///< by operation, scalars
  /// By operand: what it is, and what lies apart from it.
  std::vector<llvm::MDNode *> scopes, others;
  std::vector<bool>
      isConstant; ///< by operand: nothing that is written may be it
  uint64_t spent = 0;
};

} // namespace fsdp

#endif // FSDP_KERNELS_EMIT_EVALUATOR_H
