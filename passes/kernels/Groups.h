//===- Groups.h - Operators that can run as one kernel ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_KERNELS_GROUPS_H
#define FSDP_PASSES_KERNELS_GROUPS_H

#include "passes/analysis/Liveness.h"

#include <memory>

namespace fsdp {

/// On an operator that is there once more for who reads it: its kernel is that
/// one's, and not one that reads the same.
inline constexpr llvm::StringLiteral kAgainAttr = "fsdp.again";

/// Operators in the order of the program, which are to stand where one of them
/// does: those before it later than now, those behind it earlier.
struct KernelGroup {
  llvm::SmallVector<mlir::Operation *> ops;
  mlir::Operation *place = nullptr;
  /// Views between them, in the order of the program.
  llvm::SmallVector<mlir::Operation *> views;
  /// What others read, in the order in which it is made.
  llvm::SmallVector<mlir::Value> results;

  /// Both, in the order of the program.
  llvm::SmallVector<mlir::Operation *> body() const;
};

/// The groups of a program, which does not change meanwhile.
class KernelGroups {
public:
  explicit KernelGroups(mlir::func::FuncOp program);

  /// Those of more than one operator, and those that are faster alone, in the
  /// order of their places.
  llvm::SmallVector<KernelGroup, 0> take();

private:
  using Group = std::shared_ptr<KernelGroup>;
  /// Bytes that are alive at ops `begin` to `end`, more than without a group.
  struct Change {
    int64_t begin, end, bytes;
  };

  void noteEvents(mlir::Operation &op);
  void visit(mlir::Operation &op);
  llvm::SmallVector<Group> findProducers(mlir::Operation &op) const;
  llvm::SmallVector<Group> findSiblings(mlir::Operation &op) const;
  bool tryJoin(llvm::ArrayRef<Group> parts, mlir::Operation &op,
               mlir::Operation *place);
  bool tryJoinAll(llvm::ArrayRef<Group> parts, mlir::Operation &op);
  std::optional<KernelGroup> join(llvm::ArrayRef<Group> parts,
                                  mlir::Operation &op,
                                  mlir::Operation *place) const;
  bool isUndisturbed(const KernelGroup &group) const;
  /// Where an operator stands by now.
  int64_t placeOf(mlir::Operation *op) const;
  enum class Readers { None, Later, Earlier };
  Readers findReaders(mlir::Value value, const KernelGroup &group) const;
  mlir::LogicalResult findResults(KernelGroup &group) const;
  bool isMadeBehind(mlir::Value value, int64_t place) const;
  bool isReadBefore(mlir::Value value, mlir::Operation *op,
                    int64_t place) const;
  int64_t lastReader(mlir::Value value, const KernelGroup &group) const;
  llvm::SmallVector<Change> getChanges(const KernelGroup &group) const;
  bool keepsPeak(const KernelGroup &group, llvm::ArrayRef<Group> parts) const;
  void apply(const KernelGroup &group, int64_t sign);
  int64_t at(mlir::Operation *op) const { return positions.lookup(op); }

  mlir::func::FuncOp program;
  Liveness liveness;
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseMap<mlir::Operation *, Group> groupOf;
  /// By storage: where it is freed, or changed by what is no operator.
  llvm::DenseMap<unsigned, llvm::SmallVector<int64_t, 2>> events;
  /// Bytes alive at each op, as the groups so far leave them, and the most.
  llvm::SmallVector<int64_t, 0> alive;
  int64_t peak = 0;
};

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_GROUPS_H
