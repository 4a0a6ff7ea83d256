//===- PartialAttention.h - Attention in several calls ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Partial attention is put together by the logarithms of its sums, as ring and
// flash attention do (Milakov and Gimelshein 2018; Liu, Zaharia and Abbeel
// 2023).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PLAN_PARTIALATTENTION_H
#define FSDP_PASSES_PLAN_PARTIALATTENTION_H

#include "passes/analysis/TensorOps.h"

#include <limits>

namespace fsdp {

/// `value`, contiguous, as a tensor of `type`, which is dense.
mlir::Value toType(TensorOps &ops, mlir::Value value,
                   mlir::RankedTensorType type);

/// Calls of an attention operator, or of its gradient, with other operands in
/// place of those that are cut by tokens, and what they give put together. All
/// are built in front of it.
class PartialAttention {
public:
  static constexpr int64_t kTokens = 2; ///< of [batch, heads, tokens, features]

  PartialAttention(mlir::Operation *op, GroupAttr group);

  bool isBackward() const { return getName(op).ends_with("_backward"); }
  mlir::Value get(llvm::StringRef name) const;

  /// Rows of a rank's own part: of its early or of its late piece.
  mlir::Value half(mlir::Value part, bool late);

  /// `number(rank)`, for each rank.
  template <typename Number>
  llvm::SmallVector<int64_t> forEachRank(Number &&number) const {
    llvm::SmallVector<int64_t> numbers;
    for (int64_t rank = 0; rank < ranks; ++rank)
      numbers.push_back(number(rank));
    return numbers;
  }

  /// One piece for each rank, of the number that it says.
  template <typename Number>
  mlir::Value select(mlir::Value tensor, Number &&number) {
    return ops.selectRows(tensor, kTokens, forEachRank([&](int64_t rank) {
                            return number(rank) * piece;
                          }),
                          piece, group);
  }

  /// A number for ranks that are with their early piece, and another for those
  /// that are with their late one, as `half(rank)` says (0 or 1): a tensor of
  /// one element.
  template <typename Half>
  mlir::Value choose(double early, double late, Half &&half,
                     mlir::Type element) {
    return chooseByHalf(early, late, forEachRank(half), element);
  }

  /// The operator with other operands for those that are cut by tokens: results
  /// of their lengths.
  mlir::Operation *
  call(llvm::ArrayRef<std::pair<llvm::StringRef, mlir::Value>> others,
       bool causal);

  /// Contiguous, of that element type.
  mlir::Value toElement(mlir::Value value, mlir::Type element) {
    return ops.cast(ops.copy(value), element);
  }

  /// As the result `number` of the operator is.
  mlir::Value toResult(mlir::Value value, unsigned number) {
    return toType(ops, value, getResultType(number));
  }
  mlir::RankedTensorType getResultType(unsigned number) const {
    return mlir::cast<mlir::RankedTensorType>(op->getResult(number).getType());
  }

  // Forward:

  /// What some keys make of queries: the output, and the logarithm of the sum
  /// that it was divided by.
  struct Partial {
    mlir::Value output, sum;
  };

  Partial attend(mlir::Value query, mlir::Value key, mlir::Value value,
                 bool causal);
  /// Of an operator that was called.
  Partial toPartial(mlir::Operation *each);
  /// What both sets of keys make of the same queries.
  Partial merge(Partial a, Partial b);
  /// Merges what some keys make of the queries that each rank's `half` says
  /// into that half's; the other half stays as it is.
  template <typename Half>
  void mergeByHalf(Partial &early, Partial &late, Partial other, Half &&half) {
    mlir::Type element = getTensor(other.sum).getElementType();
    constexpr double kNever = -std::numeric_limits<double>::infinity();
    auto only = [&](double forEarly, double forLate) {
      return Partial{other.output, ops.add(other.sum, choose(forEarly, forLate,
                                                             half, element))};
    };
    early = merge(early, only(0, kNever));
    late = merge(late, only(kNever, 0));
  }
  /// Rows of both.
  Partial half(Partial part, bool late) {
    return {half(part.output, late), half(part.sum, late)};
  }
  Partial cat(Partial early, Partial late) {
    return {ops.cat({early.output, late.output}, kTokens),
            ops.cat({early.sum, late.sum}, kTokens)};
  }

  // Backward:

  /// Gradients of queries, keys and values in the type that they are added up
  /// in.
  struct Gradients {
    mlir::Value query, key, value;
  };

  /// Low precision would lose what several calls give little of.
  mlir::Type getSumType() const;

  /// With `take` of all that the operator reads by tokens of its queries.
  template <typename Take>
  Gradients differentiate(Take &&take, mlir::Value key, mlir::Value value,
                          bool causal) {
    llvm::SmallVector<std::pair<llvm::StringRef, mlir::Value>> others{
        {"key", key}, {"value", value}};
    for (llvm::StringRef name : listOfQueries())
      others.push_back({name, take(get(name))});
    return toGradients(call(others, causal));
  }

  mlir::Value zeros(mlir::Value like, int64_t tokens);
  mlir::Value multiply(mlir::Value gradient, mlir::Value factor) {
    return ops.make("aten.mul.Tensor", {gradient, factor}, {},
                    getTensor(gradient));
  }

  /// Replaces the operator, as far as there are `results`.
  void replace(llvm::ArrayRef<mlir::Value> results);

protected:
  mlir::Operation *op;
  GroupAttr group;
  int64_t ranks;
  TensorOps ops;
  llvm::SmallVector<llvm::StringRef> names; ///< of operands
  int64_t piece; ///< tokens of half of a rank's queries

private:
  mlir::Value chooseByHalf(double early, double late,
                           llvm::ArrayRef<int64_t> halves, mlir::Type element);
  mlir::Value scale(mlir::Value output, mlir::Value sum, mlir::Value all);
  llvm::SmallVector<llvm::StringRef> listOfQueries() const;
  Gradients toGradients(mlir::Operation *each);
};

} // namespace fsdp

#endif // FSDP_PASSES_PLAN_PARTIALATTENTION_H
