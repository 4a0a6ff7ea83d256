//===- Cuts.h - How ranks may compute an operator in parts ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One axis of ranks at a time. The idea of dims that operands and results share
// is Shardy's (sharding rules with factors); which operators keep a sum partial
// is DTensor's.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PARTITION_CUTS_H
#define FSDP_PASSES_PARTITION_CUTS_H

#include "passes/partition/WholeOp.h"

#include <optional>
#include <vector>

namespace fsdp {

/// What a rank has of a tensor: its part of a dim that is cut evenly, in
/// `blocks` blocks of one size (`#fsdp.parts`), or one of these below.
struct Place {
  int64_t dim, blocks;

  constexpr Place(int64_t dim, int64_t blocks = 1) : dim(dim), blocks(blocks) {}
  bool isPart() const { return dim >= 0; }
  bool operator==(const Place &) const = default;
};
inline constexpr Place kWholePlace = -1;    ///< all of it
inline constexpr Place kPartialPlace = -2;  ///< a summand of it
inline constexpr Place kAnyPlace = -3;      ///< of an operand whose values
                                            ///< nothing reads
inline constexpr Place kGreatestPlace = -4; ///< numbers of which the greatest
                                            ///< are it

/// How dims are cut by the ranks of an axis.
struct Pieces {
  int64_t ranks;         ///< at least 2
  bool balanced = false; ///< `#fsdp.parts`
  /// Of how many blocks the dims of one operator may be, beside one. None: all
  /// dims are one block.
  llvm::SmallVector<int64_t> blocks = {};
  /// Whether parts of a sequence are meant: gradients are sums over them, and
  /// attention's queries do not know of each other.
  bool isContext = false;
  /// Whether attention may have parts of its keys, which are passed on.
  bool ring = false;
};

/// One way to compute an operator in parts: if a rank has of each operand what
/// `operands` says, then the operator gives it of each result what `results`
/// says.
struct Cut {
  llvm::SmallVector<Place, 4> operands, results;

  bool operator==(const Cut &) const = default;
};

/// All ways but for that in which each rank has all; none for operators without
/// a rule. Dims are cut evenly.
std::vector<Cut> findCuts(const WholeOp &op, const Pieces &pieces);

/// Whether there is a rule for operators of this name.
bool hasRule(llvm::StringRef name);

/// Whether its result is the same bytes as elements of another type.
bool isRetyping(llvm::StringRef name);

/// Whether it multiplies matrices.
bool isProduct(mlir::Operation *op);
/// Whether it adds what it multiplies to its first operand.
bool addsToFirst(mlir::Operation *op);

/// Whether it is attention whose queries read no later keys, by its static
/// arguments.
bool isCausalAttention(mlir::Operation *op);

/// How many positions in front of its own a query of attention sees that a
/// kernel is told (`aten._flash_attention_forward`), if it sees itself and
/// these alone; none for other operators, and where sequences lie one behind
/// the other.
std::optional<int64_t> findWindow(const WholeOp &op);

/// Where queries of attention of documents, whose beginnings a kernel is told,
/// lie that ranks have parts of: a place of all its rows. Nothing for others,
/// and if queries see later keys, but not all of their document's: then no call
/// of some of them says which.
std::optional<Place> findDocumentsPlace(const WholeOp &op);

/// The dim of attention's operands along which positions lie.
int64_t getTokensDim(const WholeOp &op);

/// Whether ranks have parts of the keys of attention, of which others need
/// some: it is told that they are passed on (`fsdp.ring`).
bool isRing(const WholeOp &op, const Cut &cut);

/// Whether it is a look-up of which ranks have parts of the rows, or its
/// gradient: it is told whose rows these are (`fsdp.rows`).
bool isLookupOfRows(mlir::Operation *op, const Cut &cut);

/// Of a dim that is no dim of the result.
inline constexpr int64_t kNoDim = -1;
/// For each dim of the operand of a view that keeps dims the dim of its results
/// that it is as a whole, or kNoDim.
llvm::SmallVector<int64_t> mapDims(const WholeOp &op);

/// Cuts before it is known whether they are even. A family a function, each in
/// the file of its name. Where parts of one dim are those of another whatever
/// they are, cuts are of one block.
namespace cuts {
void addPointwise(const WholeOp &op, std::vector<Cut> &cuts);
void addViews(const WholeOp &op, std::vector<Cut> &cuts);
void addRetyped(const WholeOp &op, std::vector<Cut> &cuts);
void addReshapes(const WholeOp &op, const Pieces &pieces,
                 std::vector<Cut> &cuts);
/// Of a dim in blocks whole ones that lie side by side: what splits, slices and
/// joins take and leave, and their gradients.
void addBlocks(const WholeOp &op, const Pieces &pieces, std::vector<Cut> &cuts);
void addJoins(const WholeOp &op, std::vector<Cut> &cuts);
void addProducts(const WholeOp &op, std::vector<Cut> &cuts);
/// The same of operands [batch, length, heads, width] or [positions, heads,
/// width], of which kernels are told what is seen.
void addToldAttention(const WholeOp &op, const Pieces &pieces,
                      std::vector<Cut> &cuts);
void addAttention(const WholeOp &op, const Pieces &pieces,
                  std::vector<Cut> &cuts);
void addReductions(const WholeOp &op, std::vector<Cut> &cuts);
/// Greatest values of parts, of which the greatest are the whole's.
void addGreatest(const WholeOp &op, std::vector<Cut> &cuts);
/// Blocks of codes that stand for whole parts of the slowest dim.
void addCodes(const WholeOp &op, const Pieces &pieces, std::vector<Cut> &cuts);
void addAlongOthers(const WholeOp &op, std::vector<Cut> &cuts);
void addNorms(const WholeOp &op, std::vector<Cut> &cuts);
void addEmbeddings(const WholeOp &op, std::vector<Cut> &cuts);
void addLosses(const WholeOp &op, std::vector<Cut> &cuts);
void addExchanges(const WholeOp &op, std::vector<Cut> &cuts);

/// The cut in which everything is whole.
Cut whole(const WholeOp &op);
/// For each dim of the operands, which all have it, the dim of the results that
/// it is, or kNoDim.
void addEach(const WholeOp &op, llvm::ArrayRef<int64_t> resultDims,
             std::vector<Cut> &cuts);
/// Every operand a summand, and every result: of linear operators.
void addPartial(const WholeOp &op, std::vector<Cut> &cuts);
} // namespace cuts

} // namespace fsdp

#endif // FSDP_PASSES_PARTITION_CUTS_H
