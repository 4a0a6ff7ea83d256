//===- Liveness.h - Storages of a scheduled program -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which tensors share memory, how much of it they need and from when to when.
// Computed from the IR alone in one walk, so that the planner and the verifier
// of its work agree on nothing but the rules:
//
// * a view, a `replay`, an `unpack` and the result of a `wait` lie in another
//   value's storage;
// * a state lives for ever; so does an input, which callers need not set again;
// * a transfer holds its operands and results from its start to its wait;
// * an optimizer and an all-reduce overwrite their operands;
// * what a copy between memories makes is of the kind that it was made of,
//   parameters being gathered ones on the device and other states activations;
// * nothing lies in the place of what lies in another memory;
// * a running sum grows in its own place if the result is its new value, else
//   in the summand's, if nothing else reads that;
// * what is packed lies in the packed tensor, if it is all of its storage and
//   nothing else reads it;
// * a result that is bound to a state may be computed in the state's place, if
//   nobody reads the old value any more; else it is copied there at the end;
// * in a program marked with `fsdp.reuse`, a result lies in the place of an
//   operand of the same type that nobody reads afterwards, if its op lets it
//   (InPlace.h): elementwise ones, kernels, and products that are added to a
//   matrix; the last alone where the mark says "sums".
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_ANALYSIS_LIVENESS_H
#define FSDP_PASSES_ANALYSIS_LIVENESS_H

#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/Memories.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace fsdp {

/// On a program in which dead operands are reused; the planner sets it where
/// that makes the arena no larger. A string, "sums", stands for those to which
/// products are added.
inline constexpr llvm::StringLiteral kReuseAttr = "fsdp.reuse";
inline constexpr llvm::StringLiteral kReuseSums = "sums";

enum class StorageKind { State, Input, Activation, Gathered, Gradient };

/// One piece of memory. Times are positions of ops in the block; both ends are
/// included.
struct Storage {
  StorageKind kind;
  int64_t bytes; ///< with room for padding rows
  int64_t first, last;
  mlir::Value value;             ///< the first value that lies in it
  mlir::FlatSymbolRefAttr state; ///< of a state
  MemorySpace memory = MemorySpace::Device;
};

/// An op that reads a value after `writer` has overwritten it.
struct StaleRead {
  mlir::Operation *reader;
  mlir::Value value;
  mlir::Operation *writer;
};

class Liveness {
public:
  static constexpr unsigned kNone = ~0u;

  /// `program` is one block without regions.
  explicit Liveness(mlir::func::FuncOp program);

  llvm::ArrayRef<Storage> getStorages() const { return storages; }
  const Memories &getMemories() const { return memories; }

  /// Index of the storage that `value` lies in; kNone for constants, futures
  /// and undefined results.
  unsigned getStorage(mlir::Value value) const;

  /// Storages that a start's future promises, in its order.
  llvm::ArrayRef<unsigned> getPromised(mlir::Operation *start) const;

  /// The storages whose addresses stand in the op's `fsdp.at`, in its order:
  /// those of its results that are neither views nor undefined; of a start
  /// those that it promises; none for a wait or a replay.
  llvm::SmallVector<unsigned> getOwned(mlir::Operation *op) const;

  /// Position of the terminator.
  int64_t getEnd() const { return end; }

  llvm::ArrayRef<StaleRead> getStaleReads() const { return staleReads; }

  /// Results that must be copied to the address of the state they are bound to
  /// when all else is done: operand numbers of the terminator.
  llvm::ArrayRef<unsigned> getCopies() const { return copies; }

  /// Whether the storage at `index` turned out to lie in another one's place or
  /// in a packed tensor; it has no memory of its own then.
  bool isMerged(unsigned index) const {
    return mergedInto[index] != kNone || partOf[index].whole != kNone;
  }

  /// Where a storage lies in a packed tensor's, or in the state's that that one
  /// is made in.
  struct Part {
    unsigned whole; ///< kNone: in no other
    int64_t offset; ///< in bytes
  };
  Part getPart(unsigned index) const {
    Part part = partOf[index];
    return part.whole == kNone ? part : Part{resolve(part.whole), part.offset};
  }

private:
  unsigned add(StorageKind kind, int64_t bytes, int64_t now, mlir::Value value,
               MemorySpace memory);
  void share(mlir::Value value, unsigned storage);
  void use(mlir::Value value, mlir::Operation *reader, int64_t now);
  void overwrite(unsigned storage, mlir::Operation *writer);
  void visitStart(StartOpInterface op, int64_t now);
  void visitWait(WaitOp op, int64_t now);
  void visitAccumulate(AccumulateOp op);
  void visitPack(PackOp op, int64_t now);
  bool canBePart(mlir::Value value) const;
  void visitOptimizer(UpdateOp op);
  void visit(mlir::Operation &op, int64_t now);
  bool canLieIn(mlir::OpResult result, unsigned storage, unsigned state) const;
  void placeResults(mlir::func::FuncOp program);
  bool canReuse(mlir::OpOperand &operand, mlir::OpResult result, int64_t now,
                llvm::ArrayRef<mlir::Value> whole) const;
  void reuseFor(mlir::OpResult result, int64_t now,
                llvm::MutableArrayRef<mlir::Value> whole);
  void reuseDeadOperands(mlir::func::FuncOp program, bool onlySums);
  unsigned resolve(unsigned storage) const;

  struct Place {
    unsigned storage;
    unsigned generation; ///< number of overwritings that it is younger than
  };

  Memories memories;
  llvm::SmallVector<Storage, 0> storages;
  llvm::SmallVector<unsigned, 0> mergedInto; ///< one that is not, or kNone
  llvm::SmallVector<Part, 0> partOf;
  llvm::SmallVector<unsigned, 0> generations;
  llvm::SmallVector<mlir::Operation *, 0> writers;
  /// Also of storages that live on; `free` is no read.
  llvm::SmallVector<int64_t, 0> lastReads;
  llvm::DenseMap<mlir::Value, Place> places;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<unsigned, 4>> promised;
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::SmallVector<StaleRead> staleReads;
  llvm::SmallVector<unsigned> copies;
  int64_t end = 0;
};

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_LIVENESS_H
