//===- PlannedContents.h - What a planned program writes where ---*- C++
//-*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PLAN_PLANNEDCONTENTS_H
#define FSDP_PASSES_PLAN_PLANNEDCONTENTS_H

#include "passes/analysis/Memories.h"
#include "passes/analysis/States.h"
#include "passes/plan/ByteMap.h"

#include <limits>

namespace fsdp {

/// What was once written to a range of bytes, as one.
struct Contents {
  int64_t begin, bytes;
  mlir::Location location;     ///< of what wrote them, or of the state or input
  mlir::RankedTensorType type; ///< of the value that fills them; null: padding
                               ///< rows
  int64_t lastRead = -1;

  int64_t getEnd() const { return begin + bytes; }
};

/// All contents of one program, in the order in which they are written, with
/// their addresses and last reads.
class PlannedContents {
public:
  static constexpr unsigned kNone = ByteMap::kNothing;
  static constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

  PlannedContents(mlir::func::FuncOp program, const StateTable &states,
                  const llvm::DenseSet<mlir::Operation *> &spare)
      : program(program), states(states), memories(program), spare(spare) {}

  /// Emits an error at an op whose addresses are not what it needs.
  mlir::LogicalResult prepare();

protected:
  /// Where an op writes what, and the operand in whose place it does so.
  struct Write {
    unsigned contents;
    mlir::Value inPlaceOf;
  };
  /// A new value of a state that was made elsewhere.
  struct Copy {
    mlir::Value from;
    unsigned contents;
    int64_t time = 0;
  };

  /// kNone for constants and for what is no tensor.
  unsigned getContents(mlir::Value value) const;
  /// Whether the elements of `value` are all of its contents, in their order.
  bool isWhole(mlir::Value value) const;
  /// An op that only gives other names to its operands reads no element.
  static bool isRead(mlir::Operation &op);
  /// Bytes of a reduced operand with its padding rows.
  static int64_t getPaddedBytes(mlir::Type type, int64_t dim, GroupAttr group);
  /// Whether a state has memory, which holds its value when all is done.
  bool isKept(StateOp state) const;
  /// The state whose new value a result of the program is, or null.
  StateOp getResultState(unsigned number);

  mlir::func::FuncOp program;
  const StateTable &states;
  Memories memories;
  int64_t now = 0;
  llvm::SmallVector<Contents, 0> contents;
  llvm::SmallVector<unsigned> initial; ///< there before the program begins
  llvm::DenseMap<mlir::Value, unsigned> contentsOf;
  llvm::DenseMap<unsigned, unsigned> paddings; ///< behind other contents
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<Write>> writes;
  /// Made where packed.
  llvm::DenseMap<mlir::Operation *, llvm::DenseSet<unsigned>> parts;
  /// By states when all is done.
  llvm::DenseMap<mlir::Operation *, unsigned> held;
  llvm::DenseSet<mlir::Operation *>
      spare;                      ///< states that may hold anything then
  llvm::SmallVector<Copy> copies; ///< when all else is done

private:
  unsigned make(int64_t begin, int64_t bytes, mlir::Location location,
                mlir::RankedTensorType type);
  void noteRead(mlir::Value value, int64_t time);
  mlir::LogicalResult makeArguments();
  mlir::LogicalResult prepareOp(mlir::Operation &op);
  /// The operands in whose places an op computes.
  mlir::LogicalResult findUpdates(mlir::Operation &op,
                                  llvm::SmallVector<Write> &written);
  mlir::LogicalResult setUpdate(mlir::Operation &op, Write &write,
                                mlir::Value operand);
  /// Contents that a transfer makes, with the padding rows behind them.
  mlir::LogicalResult prepareStart(StartOpInterface op,
                                   llvm::ArrayRef<int64_t> at);
  mlir::LogicalResult prepareWait(WaitOp wait);
  void preparePadding(ZeroPaddingOp op);
  mlir::LogicalResult prepareReturn(mlir::Operation &op);
};

} // namespace fsdp

#endif // FSDP_PASSES_PLAN_PLANNEDCONTENTS_H
