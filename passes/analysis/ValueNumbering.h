//===- ValueNumbering.h - Equal computations get equal numbers --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_VALUE_NUMBERING_H
#define FSDP_PASSES_ANALYSIS_VALUE_NUMBERING_H

#include "passes/analysis/States.h"

#include "llvm/Support/Allocator.h"

#include <string>

namespace fsdp {

/// Numbers the values of several functions in one table. Two values have one
/// number if and only if they are the same expression over states and inputs,
/// where collectives, replays and waits stand for their operand, a running sum
/// of micro-batches for what this one adds to it, and a parameter that stays
/// gathered for what the first micro-batch's program gathered. A flat state
/// stands for its members: what is cast, gathered and packed in its layout is
/// as many values as it has. Exact: keys are compared, not hashes. Linear time.
class ValueNumbering {
public:
  using Number = unsigned;

  /// A value that must be the same in equal programs.
  struct Observation {
    std::string what; // "output 'loss'", "gradient of 'fc1.weight'"
    Number number;
    mlir::Location loc;
    bool isMetric = false; // the mean of an output, not the output itself
    /// A gradient in the type that it is reduced in, which is not its own.
    bool isBeforeCast = false;
    /// The place in the random sequence, which the last grain of a step
    /// changes.
    bool isRandom = false;
  };

  /// Numbers a straight-line function. Observes outputs, new values of buffers
  /// and, for each parameter, every value that is treated as its gradient: a
  /// result, the operand of the reduction marked `of` it, the optimizer's
  /// operand, a summand of its running sum, the sum's new value. A metric is
  /// observed as the output that it is the mean of. Gathered parameters that
  /// the function leaves in a state are known to functions that are numbered
  /// later; one that differs from what an earlier function left is observed.
  /// The norm of the gradients is no part of what was captured.
  llvm::SmallVector<Observation> run(mlir::func::FuncOp func);

  /// The first op that computed a number; null for arguments.
  mlir::Operation *getOp(Number number) const { return ops.lookup(number); }

  /// How many numbers there are; all below are known.
  Number getCount() const { return next; }

  /// Among the ops of the last function that `number` depends on, the first
  /// whose results have numbers from `known` on; null if there is none.
  mlir::Operation *findFirstUnknown(Number number, Number known) const;

  /// Whether `number` is `other` cast to another type.
  bool isCastOf(Number number, Number other) const;

  /// Whether `number` is `other` cast to f32, as metrics are.
  bool isMetricOf(Number number, Number other) const;

private:
  using Key = llvm::ArrayRef<uintptr_t>;

  Number intern(Key key, unsigned size, mlir::Operation *op);
  void numberArgument(mlir::BlockArgument argument);
  void numberOp(mlir::Operation &op);
  /// Whether the op only moves what it is given; numbers its results if so.
  bool passThrough(mlir::Operation &op);
  /// Whether the op adds a micro-batch's part to the state that is its sum, and
  /// divides it where the step ends.
  bool growsItsSum(AccumulateOp op) const;
  /// Numbers what gathering `shard` gives: `shard`'s number, or one of its own
  /// if it has padding rows.
  void numberGathered(mlir::Value full, mlir::Value shard);
  /// Whether the op cuts padding rows off; numbers its result if so.
  bool cutsPadding(mlir::Operation &op);
  /// The number of a tensor that holds these, laid out as the members of
  /// `flat`.
  Number internFlat(StateOp flat, llvm::ArrayRef<Number> parts);
  /// Whether the op makes or reads a tensor in the layout of a flat state,
  /// whose parts are numbered as if each were a tensor of its own; numbers its
  /// result if so.
  bool numberFlat(mlir::Operation &op);
  bool packsMembers(PackOp op);
  bool takesMember(UnpackOp op);
  Number numberCast(mlir::Operation &op, Number operand);
  /// Whether the op, which brings dims into an order, takes back what brought
  /// its operand into another; numbers its result if so.
  bool undoesPermute(mlir::Operation &op, llvm::ArrayRef<int64_t> order);

  Observation &observe(llvm::StringRef what, llvm::StringRef name,
                       mlir::Value value, mlir::Location loc);
  /// `of` is no gradient's name, or the state's that it is of.
  void observeGradient(mlir::Attribute of, mlir::Value value,
                       mlir::Location loc);
  void observeResult(unsigned number, mlir::Value value);

  llvm::BumpPtrAllocator allocator;
  llvm::DenseMap<Key, Number> table;
  llvm::DenseMap<Number, mlir::Operation *> ops;
  llvm::DenseMap<Number, Number> castOperands, metricOperands;
  /// By the state's name: what the first micro-batch's program left in it.
  llvm::DenseMap<mlir::Attribute, Number> kept;
  /// Which tensor was permuted, and how.
  struct Permuted {
    Number source = 0;
    llvm::SmallVector<int64_t> order;
  };
  llvm::DenseMap<Number, Permuted> permuted;
  /// What a padded tensor holds, and how many rows of it along which dim.
  struct Padded {
    Number number = 0;
    int64_t rows = 0, dim = 0;
  };
  llvm::DenseMap<Number, Padded> padded;
  /// What a tensor in the layout of a flat state holds.
  struct FlatParts {
    mlir::FlatSymbolRefAttr flat;
    llvm::SmallVector<Number> parts;
  };
  llvm::DenseMap<Number, FlatParts> flats;
  Number next = 0;

  // Of the function that is being numbered.
  mlir::func::FuncOp current;
  const StateTable *states = nullptr;
  llvm::DenseMap<mlir::Value, Number> numbers;
  llvm::SmallVector<Observation> observed;
};

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_VALUE_NUMBERING_H
