//===- LossRegion.h - A linear layer, its loss, their gradients -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ops of a captured program from the logits, which a linear layer makes, to
// all that is smaller than these: forward to the loss and, in backward, from
// the loss's gradient to the gradients of the layer's weight, bias and input.
//
// Found by walking over what reads the logits, not by patterns of losses: each
// op must compute a row of its results from the same row of its operands, or
// sum over all rows. So the ops can be computed for some rows at a time.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_MEMORY_LOSSREGION_H
#define FSDP_PASSES_MEMORY_LOSSREGION_H

#include "ir/aten/Aten.h"

#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <optional>
#include <string>

namespace fsdp {

/// Why something is not computed in chunks, and where.
struct NotChunked {
  mlir::Location loc;
  std::string text; ///< "its rows come from aten.bmm, no linear layer"
};

/// Rows of the logits that are left out of the loss, as a shift of labels
/// leaves the last one of each sequence out: `logits[:, :-1]`.
struct RowSelection {
  llvm::SmallVector<int64_t> shape; ///< dims that are all rows together
  int64_t dim = 0, start = 0, end = 0;

  llvm::SmallVector<int64_t> getKeptShape() const {
    llvm::SmallVector<int64_t> kept(shape);
    kept[dim] = end - start;
    return kept;
  }
  bool operator==(const RowSelection &) const = default;
};

class LossRegion {
public:
  /// Which rows a value has.
  enum class Space {
    All,    ///< those of the layer's result
    Kept,   ///< those that a selection keeps
    AllZero ///< all, of which those that no selection keeps are zero
  };

  /// A value whose first `lead` dims are the rows.
  struct Rows {
    unsigned lead = 1;
    Space space = Space::All;
    bool isWide = false; ///< about as large as the logits
  };

  enum class Kind {
    Linear,         ///< makes the logits
    Elementwise,    ///< and casts
    Regroup,        ///< another view of the same rows
    Expand,         ///< repeats columns
    AlongColumns,   ///< within a row; has dims, or sizes, among its arguments
    Transpose,      ///< for WeightGradient
    InputGradient,  ///< rows times a matrix that has none
    WeightGradient, ///< a matrix product over all rows
    SumRows,        ///< sum over all rows, and perhaps columns
    LossForward,    ///< nll_loss_forward
    LossBackward,   ///< nll_loss_backward
    Select,         ///< keeps some of the rows
    Unselect        ///< puts zeros where the others were
  };

  struct Member {
    mlir::Operation *op;
    Kind kind;
  };

  /// How an op of the region takes an operand.
  enum class Use {
    Local,     ///< a value of the region
    Invariant, ///< the same for all rows
    Squeezed,  ///< the same for all rows, behind dims of size 1
    Sliced,    ///< its own rows
    Spread,    ///< its own rows, once repeated
    Filled,    ///< one number in all elements
    None       ///< cannot be taken apart
  };

  /// Finds the layer that makes what `softmax`, an `aten._log_softmax`, reads,
  /// and the region around it. Nothing but a reason if there is none.
  static std::optional<LossRegion> find(mlir::Operation *softmax,
                                        std::optional<NotChunked> &reason);

  /// In the program's order, the layer first.
  llvm::ArrayRef<Member> getMembers() const { return members; }
  mlir::Operation *getLinear() const { return members.front().op; }
  /// What `getLinear` multiplies: rows, and a matrix of a column for each
  /// class.
  mlir::Value getInput() const;
  mlir::Value getMatrix() const;

  bool contains(mlir::Operation *op) const { return own.contains(op); }
  /// Null if the value has no rows of the region's.
  const Rows *getRows(mlir::Value value) const {
    auto it = rows.find(value);
    return it == rows.end() ? nullptr : &it->second;
  }
  /// The first operand that has rows of the region's, or null.
  mlir::Value getRowsOperand(mlir::Operation *op) const;
  /// The value of the region that `value` is the transpose of, or null.
  mlir::Value getTransposed(mlir::Value value) const {
    return transposed.lookup(value);
  }
  const std::optional<RowSelection> &getSelection() const { return selection; }
  /// Rows that are computed.
  int64_t getCount() const;

  /// How an op whose result has `type`, with `lead` dims of rows, takes
  /// `operand`.
  Use getUse(mlir::Value operand, mlir::RankedTensorType type,
             unsigned lead) const;

  /// Whether elements of the logits go into the value, however far behind.
  bool dependsOnLogits(mlir::Value value) const {
    return dependent.contains(value);
  }

  /// Whether an op outside of the region reads the value.
  bool isRead(mlir::Value value) const;

private:
  explicit LossRegion(mlir::Operation *linear);

  bool grow();
  bool include(mlir::Operation *op);
  bool verifyReaders();

  // Rules of ops (LossRules.cpp): each adds an op that it allows.
  bool classify(mlir::Operation *op);
  bool classifyElementwise(mlir::Operation *op);
  bool classifyView(mlir::Operation *op);
  bool classifyExpand(mlir::Operation *op);
  bool classifyAlongColumns(mlir::Operation *op, llvm::StringRef name);
  bool classifySlice(mlir::Operation *op, llvm::StringRef name);
  bool classifyReduction(mlir::Operation *op);
  bool classifyProduct(mlir::Operation *op);
  bool classifyLoss(mlir::Operation *op);
  bool setRows(mlir::Value value, Rows info);

  void add(mlir::Operation *op, Kind kind);
  bool refuse(mlir::Operation *op, const llvm::Twine &text);

  bool readsWide(mlir::Operation *op) const;
  bool isKnown(mlir::Value value) const {
    return rows.contains(value) || transposed.contains(value) ||
           sums.contains(value);
  }

  llvm::SmallVector<Member> members;
  llvm::DenseSet<mlir::Operation *> own;
  llvm::DenseMap<mlir::Value, Rows> rows;
  llvm::DenseMap<mlir::Value, mlir::Value> transposed;
  llvm::DenseSet<mlir::Value> sums;      ///< over all rows
  llvm::DenseSet<mlir::Value> dependent; ///< on the logits
  std::optional<RowSelection> selection;
  std::optional<NotChunked> reason;
};

} // namespace fsdp

#endif // FSDP_PASSES_MEMORY_LOSSREGION_H
