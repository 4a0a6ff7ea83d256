//===- CollectiveVerifiers.cpp - Constraints of transfers -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each check names the constraint of the op's description that it enforces.
//
//===----------------------------------------------------------------------===//

#include "ir/fsdp/Fsdp.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;

RankedTensorType fsdp::getShardType(RankedTensorType type, int64_t dim,
                                    GroupAttr group) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = getShardRows(shape[dim], group.getSize());
  return RankedTensorType::get(shape, type.getElementType());
}

RankedTensorType fsdp::getExchangedType(RankedTensorType type, int64_t dim,
                                        GroupAttr group) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = getShardRows(shape[dim], group.getSize()) * group.getSize();
  return RankedTensorType::get(shape, type.getElementType());
}

/// Whether a sum of what travels in `wire` may be one of `sum`.
static bool canWiden(Operation *op, Type wire, Type sum) {
  auto reduction = dyn_cast<ReductionOpInterface>(op);
  return reduction && reduction.getReduction() != Reduction::Max &&
         reduction.getReduction() != Reduction::Tree && sum.isF32() &&
         (wire.isBF16() || wire.isF16() || isa<Float8E4M3FNType>(wire));
}

// AG-1, AG-2, RD-3.
static LogicalResult verifySplit(Operation *op, RankedTensorType shard,
                                 RankedTensorType full, int64_t dim,
                                 GroupAttr group) {
  if (shard.getElementType() != full.getElementType() &&
      !canWiden(op, full.getElementType(), shard.getElementType()))
    return op->emitOpError("expects one element type, found ")
           << shard.getElementType() << " in the shard and "
           << full.getElementType()
           << " in the full tensor; a collective does not convert, insert a "
              "cast";
  if (shard.getRank() != full.getRank() || dim < 0 || dim >= full.getRank())
    return op->emitOpError("expects shard and full tensor of one rank greater "
                           "than dim ")
           << dim << ", found " << shard << " and " << full;
  for (int64_t d = 0; d < full.getRank(); ++d) {
    int64_t size = full.getDimSize(d);
    int64_t expected = d == dim ? getShardRows(size, group.getSize()) : size;
    if (shard.getDimSize(d) == expected)
      continue;
    InFlightDiagnostic diag = op->emitOpError("expects a shard of ")
                              << expected << " along dim " << d;
    if (d == dim)
      diag << " (" << size << " over " << group.getSize()
           << " ranks, rounded up)";
    return diag << ", found " << shard.getDimSize(d);
  }
  return success();
}

// AG-3, where AG-1 and AG-2 hold.
static LogicalResult verifyParts(Operation *op, PartsAttr parts,
                                 RankedTensorType full, int64_t dim,
                                 GroupAttr group) {
  if (!parts)
    return success();
  int64_t pieces =
      parts.getBlocks() * (parts.getBalanced() ? 2 : 1) * group.getSize();
  if (full.getDimSize(dim) % pieces == 0)
    return success();
  return op->emitOpError("expects a dim of ")
         << pieces << " equal pieces, found dim " << dim << " of " << full;
}

LogicalResult AllGatherOp::verify() {
  if (failed(verifySplit(*this, getShard().getType(), getFull().getType(),
                         getDim(), getGroup())))
    return failure();
  return verifyParts(*this, getPartsAttr(), getFull().getType(), getDim(),
                     getGroup());
}

// SU-1.
LogicalResult SummandOp::verify() {
  if (!cast<RankedTensorType>(getInput().getType()).getEncoding())
    return success();
  return emitOpError("expects a contiguous tensor, found ")
         << getInput().getType();
}

LogicalResult ShardOp::verify() {
  if (failed(verifySplit(*this, getShard().getType(), getFull().getType(),
                         getDim(), getGroup())))
    return failure();
  return verifyParts(*this, getPartsAttr(), getFull().getType(), getDim(),
                     getGroup());
}

// SR-1, SR-2.
LogicalResult SelectRowsOp::verify() {
  RankedTensorType from = getInput().getType(), to = getResult().getType();
  int64_t dim = getDim();
  if (from.getElementType() != to.getElementType() ||
      from.getRank() != to.getRank() || dim < 0 || dim >= from.getRank())
    return emitOpError("expects operand and result of one element type and of "
                       "one rank greater than dim ")
           << dim << ", found " << from << " and " << to;
  for (int64_t d = 0; d < from.getRank(); ++d)
    if (d != dim && from.getDimSize(d) != to.getDimSize(d))
      return emitOpError("expects one shape but for dim ")
             << dim << ", found " << from << " and " << to;
  if (int64_t(getStarts().size()) != getGroup().getSize())
    return emitOpError("expects one start for each of ")
           << getGroup().getSize() << " ranks, found " << getStarts().size();
  int64_t last = from.getDimSize(dim) - to.getDimSize(dim);
  for (int64_t start : getStarts())
    if (start < 0 || start > last)
      return emitOpError("expects starts from 0 to ")
             << last << ", found " << start;
  return success();
}

// RD-1, RD-2.
static LogicalResult verifyDivision(ReductionOpInterface op) {
  for (auto [name, factor] : {std::pair("pre", op.getPreAttr()),
                              std::pair("post", op.getPostAttr())}) {
    if (!factor)
      continue;
    double value = factor.getValueAsDouble();
    if (!std::isfinite(value) || value <= 0)
      return op->emitOpError("expects '")
             << name << "' to be finite and above zero, found " << factor;
    if (op.getReduction() != Reduction::Sum &&
        op.getReduction() != Reduction::Tree)
      return op->emitOpError("expects '")
             << name << "' at a sum alone, found "
             << stringifyReduction(op.getReduction());
    for (Value operand : op->getOperands())
      if (Type element = getElementTypeOrSelf(operand.getType());
          !isa<FloatType>(element))
        return op->emitOpError("expects floating-point numbers to divide by '")
               << name << "', found " << element;
  }
  return success();
}

LogicalResult ReduceScatterOp::verify() {
  if (failed(verifySplit(*this, getShard().getType(), getFull().getType(),
                         getDim(), getGroup())) ||
      failed(verifyParts(*this, getPartsAttr(), getFull().getType(), getDim(),
                         getGroup())))
    return failure();
  return verifyDivision(*this);
}

LogicalResult AllReduceOp::verify() { return verifyDivision(*this); }

//===----------------------------------------------------------------------===//
// Schedule and plan
//===----------------------------------------------------------------------===//

// FU-1.
static LogicalResult verifyPromise(StartOpInterface op) {
  if (op.getPromised().size() != op.getInputs().size())
    return op->emitOpError("expects a future of ")
           << op.getInputs().size() << " tensors, one for each operand, found "
           << op.getPromised().size();
  return success();
}

// FU-2.
static LogicalResult verifyOf(Operation *op, ValueRange inputs,
                              std::optional<ArrayAttr> of) {
  if (!of)
    return success();
  if (of->size() != inputs.size())
    return op->emitOpError("expects 'of' to name one parameter for each of ")
           << inputs.size() << " operands, found " << of->size();
  for (Attribute name : *of)
    if (!isa<FlatSymbolRefAttr>(name))
      return op->emitOpError("expects 'of' to name parameters, found ") << name;
  return success();
}

// FU-1, AG-1 to AG-3 for a gather (shards in) or a scatter (full tensors in).
static LogicalResult verifySplits(StartOpInterface op, PartsAttr parts,
                                  bool gather) {
  if (failed(verifyPromise(op)))
    return failure();
  ArrayRef<int64_t> dims = op.getDimsAttr().asArrayRef();
  if (dims.size() != op.getInputs().size())
    return op->emitOpError("expects one dim for each of ")
           << op.getInputs().size() << " operands, found " << dims.size();
  for (auto [input, promised, dim] :
       llvm::zip(op.getInputs(), op.getPromised(), dims)) {
    auto in = cast<RankedTensorType>(input.getType());
    auto out = cast<RankedTensorType>(promised);
    if (!gather)
      std::swap(in, out);
    if (failed(verifySplit(op, in, out, dim, op.getGroup())) ||
        failed(verifyParts(op, parts, out, dim, op.getGroup())))
      return failure();
  }
  return success();
}

// FU-1, AA-1.
static LogicalResult verifyExchange(StartOp op) {
  if (failed(verifyPromise(op)))
    return failure();
  ArrayRef<int64_t> dims = *op.getDims();
  if (dims.size() != op.getInputs().size())
    return op.emitOpError("expects one dim for each of ")
           << op.getInputs().size() << " operands, found " << dims.size();
  if (op.getPartsAttr())
    return op.emitOpError("expects no blocks of an exchange of equal parts");
  for (auto [input, promised, dim] :
       llvm::zip(op.getInputs(), op.getPromised(), dims)) {
    auto in = cast<RankedTensorType>(input.getType());
    if (dim < 0 || dim >= in.getRank())
      return op.emitOpError("expects an operand of a rank greater than dim ")
             << dim << ", found " << in;
    RankedTensorType expected = getExchangedType(in, dim, op.getGroup());
    if (promised != expected)
      return op.emitOpError("expects a promise of ")
             << expected << " for " << in << " among "
             << op.getGroup().getSize() << " ranks, found " << promised;
  }
  return success();
}

// SP-1, RD-1.
LogicalResult SumPartsOp::verify() {
  RankedTensorType parts = getParts().getType(), sum = getSum().getType();
  Type element = parts.getElementType();
  if (!sum.getElementType().isF32() ||
      !(element.isF32() || element.isBF16() || element.isF16() ||
        isa<Float8E4M3FNType>(element)))
    return emitOpError("expects parts of f32, bf16, f16 or f8E4M3FN and a sum "
                       "of f32, found ")
           << parts << " and " << sum;
  if (parts.getRank() == 0 || parts.getRank() != sum.getRank() ||
      parts.getShape().drop_front() != sum.getShape().drop_front() ||
      (sum.getDimSize(0) == 0 ? parts.getDimSize(0) != 0
                              : parts.getDimSize(0) % sum.getDimSize(0) != 0))
    return emitOpError("expects parts of the sum's shape behind each other, "
                       "found ")
           << parts << " and " << sum;
  for (auto [name, divisor] :
       {std::pair("pre", getPreAttr()), std::pair("post", getPostAttr())})
    if (divisor && (!std::isfinite(divisor.getValueAsDouble()) ||
                    divisor.getValueAsDouble() <= 0))
      return emitOpError("expects '")
             << name << "' to be finite and above zero, found " << divisor;
  return success();
}

// FU-1, FU-3.
static LogicalResult verifySame(StartOpInterface op) {
  if (failed(verifyPromise(op)))
    return failure();
  for (auto [i, input, promised] :
       llvm::enumerate(op.getInputs(), op.getPromised()))
    if (input.getType() != promised)
      return op->emitOpError("expects a promise of its operand's type ")
             << input.getType() << " at position " << i << ", found "
             << promised;
  return success();
}

// FU-4.
static LogicalResult verifyParts(StartOp op) {
  StringRef kind = stringifyCollective(op.getKind());
  bool combines = isCombining(op.getKind()), moves = movesRows(op.getKind());
  if (combines != bool(op.getCombinationAttr()))
    return op.emitOpError("expects ")
           << (combines ? "a" : "no") << " reduction of " << kind;
  if (moves != bool(op.getDimsAttr()))
    return op.emitOpError("expects ")
           << (moves ? "" : "no ") << "dims of " << kind;
  bool isOf = op.getOfAttr() && op.getKind() != Collective::AllToAll;
  if (!combines && (isOf || op.getPreAttr() || op.getPostAttr()))
    return op.emitOpError("expects neither 'of' nor divisors of ")
           << kind << ", which combines nothing";
  if (!moves && op.getPartsAttr())
    return op.emitOpError("expects no parts of ")
           << kind << ", which moves no rows";
  return success();
}

LogicalResult StartOp::verify() {
  if (failed(verifyParts(*this)))
    return failure();
  bool gathers = getKind() == Collective::AllGather;
  if (failed(getKind() == Collective::AllToAll ? verifyExchange(*this)
             : movesRows(getKind())
                 ? verifySplits(*this, getPartsAttr(), gathers)
                 : verifySame(*this)))
    return failure();
  if (isCombining() &&
      failed(verifyDivision(cast<ReductionOpInterface>(getOperation()))))
    return failure();
  return verifyOf(*this, getInputs(), getOf());
}

// CP-1.
LogicalResult CopyStartOp::verify() {
  Stream expected =
      getTo() == MemorySpace::Host ? Stream::Download : Stream::Upload;
  if (getStream() != expected)
    return emitOpError("expects a copy to the ")
           << stringifyMemorySpace(getTo()) << " to be on '"
           << stringifyStream(expected) << "', found '"
           << stringifyStream(getStream()) << "'";
  return verifySame(*this);
}

// WA-1.
LogicalResult WaitOp::verify() {
  ArrayRef<Type> promised = getFuture().getType().getTensors();
  if (promised.size() != getNumResults())
    return emitOpError("expects the future's ")
           << promised.size() << " tensors, found " << getNumResults();
  for (auto [i, expected, found] : llvm::enumerate(promised, getResultTypes()))
    if (expected != found) {
      InFlightDiagnostic diag = emitOpError("expects result ")
                                << i << " of the promised type " << expected
                                << ", found " << found;
      if (Operation *start = getFuture().getDefiningOp())
        diag.attachNote(start->getLoc()) << "promised here";
      return diag;
    }
  return success();
}

// ZP-1.
LogicalResult ZeroPaddingOp::verify() {
  auto type = cast<RankedTensorType>(getTensor().getType());
  int64_t dim = getDim();
  if (dim < 0 || dim >= type.getRank())
    return emitOpError("expects a dim of its operand, found ")
           << dim << " of " << type;
  return success();
}
