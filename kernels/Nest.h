//===- Nest.h - Loops over a program's rows and columns ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_KERNELS_NEST_H
#define FSDP_KERNELS_NEST_H

#include "plan/Kernels.h"

#include <cstdint>
#include <vector>

namespace fsdp {

/// One pass over columns, in which all is done that has so many of them and
/// that can be once `level` reductions, each of the one before it, are
/// complete.
struct ColumnLoop {
  unsigned level;
  uint64_t columns;
  std::vector<uint32_t> reductions; ///< operations
  std::vector<size_t> stores;       ///< operands
};

/// Columns `from` to `to` - 1 of a loop, which are `shift` further on in an
/// operation's value.
struct Window {
  uint32_t op;
  int64_t shift;
  int64_t from, to;
  auto operator<=>(const Window &) const = default;
};

/// A loop's columns, by where they come from.
struct Pieces {
  /// Where they begin to come from elsewhere, in order, with 0 and their
  /// number.
  std::vector<uint64_t> borders;
  std::vector<Window> windows; ///< all that is computed for them
};

/// What a sound program's loops are.
struct Nest {
  explicit Nest(const plan::KernelProgramT &program);

  const plan::KernelProgramT &program;
  std::vector<KernelValue> values;
  /// Rows' dims, outermost first, where neighbours that all operands cross as
  /// one are one, and by operand its strides in them.
  std::vector<int64_t> rows;
  std::vector<std::vector<int64_t>> rowStrides;

  /// All of it is one row of elements, each for itself: so many columns (or
  /// rows) of it are one of those that a call is for.
  bool isLine = false;
  int64_t lineColumns = 1;
  /// By operand: elements from one column to the next; 0: there is one.
  std::vector<int64_t> strides;

  // By operation.
  std::vector<bool> isLive;    ///< something that is written depends on it
  std::vector<bool> isUniform; ///< one value for all of a row's columns
  std::vector<unsigned> levels;

  /// In the order in which they run; of a line none, but `stores`.
  std::vector<ColumnLoop> loops;
  std::vector<size_t> stores; ///< of one column, or of a line: operands
  unsigned lastLevel = 0;

  /// A row's loops in their order: `beginLevel` in front of those of each
  /// level.
  template <typename BeginLevel, typename Emit>
  void visitLoops(BeginLevel beginLevel, Emit emit) const {
    auto loop = loops.begin();
    for (unsigned level = 0; level <= lastLevel; ++level) {
      beginLevel(level);
      for (; loop != loops.end() && loop->level == level; ++loop)
        emit(*loop);
    }
  }

  /// What `loop` computes. Throws EmitFailure if that is too much.
  Pieces piecesOf(const ColumnLoop &loop) const;
  std::vector<uint64_t> segmentsOf(const ColumnLoop &loop) const {
    return piecesOf(loop).borders;
  }

  /// Whether storing an operation's value as `dtype` rounds nothing any more.
  bool isRounded(uint32_t op, plan::DType dtype) const;

private:
  void collapse();
  bool findLine();
  void findLevels();
  void findLive();
  void findLoops();
  ColumnLoop &loopOf(unsigned level, uint64_t columns);
};

} // namespace fsdp

#endif // FSDP_KERNELS_NEST_H
