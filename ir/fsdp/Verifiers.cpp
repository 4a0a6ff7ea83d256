//===- Verifiers.cpp - Constraints of the fsdp ops ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each check names the constraint of the op's description that it enforces.
//
//===----------------------------------------------------------------------===//

#include "ir/fsdp/Fsdp.h"
#include "support/BlockCodes.h"
#include "support/ExactSum.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;

// CO-1.
LogicalResult ConstantOp::verify() {
  auto type = cast<RankedTensorType>(getResult().getType());
  if (getValue().getShapedType() != type)
    return emitOpError("expects a result of the value's type ")
           << getValue().getShapedType() << ", found " << type;
  if (getWrapped() && type.getRank() != 0)
    return emitOpError("expects a wrapped number to be a 0-d tensor, found ")
           << type;
  return success();
}

// PK-1, PK-2.
LogicalResult PackOp::verify() {
  auto result = cast<RankedTensorType>(getResult().getType());
  ArrayRef<int64_t> offsets = getOffsets();
  if (offsets.size() != getInputs().size())
    return emitOpError("expects one offset for each of ")
           << getInputs().size() << " operands, found " << offsets.size();
  if (result.getRank() != 1)
    return emitOpError("expects a result of one dim, found ") << result;
  int64_t end = 0;
  for (auto [i, input, offset] : llvm::enumerate(getInputs(), offsets)) {
    auto type = cast<RankedTensorType>(input.getType());
    if (type.getElementType() != result.getElementType())
      return emitOpError("expects operands of the result's element type ")
             << result.getElementType() << ", found " << type
             << "; packing does not convert, insert a cast";
    if (offset < end)
      return emitOpError("expects operand ")
             << i << " from element " << end
             << " on, behind the one before it, "
             << "found " << offset;
    end = offset + type.getNumElements();
  }
  if (end > result.getNumElements())
    return emitOpError("expects a result of at least ")
           << end << " elements, found " << result;
  return success();
}

// UP-1, UP-2.
LogicalResult UnpackOp::verify() {
  auto packed = cast<RankedTensorType>(getPacked().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  if (result.getElementType() != packed.getElementType())
    return emitOpError("expects a result of the operand's element type ")
           << packed.getElementType() << ", found " << result;
  if (packed.getRank() != 1 || packed.getEncoding() || result.getEncoding())
    return emitOpError("expects an operand of one dim and a contiguous result, "
                       "found ")
           << packed << " and " << result;
  int64_t last = packed.getNumElements() - result.getNumElements();
  if (auto offset = int64_t(getOffset()); offset < 0 || offset > last)
    return emitOpError("expects its ")
           << result.getNumElements() << " elements from element " << offset
           << " on to lie inside of " << packed;
  return success();
}

// AC-3.
static LogicalResult verifyTree(AccumulateOp op) {
  auto into = op.getInto().getType(), gradient = op.getGradient().getType();
  Type result = op.getResult().getType();
  if (into.getRank() == 0 ||
      into.getShape().drop_front() != gradient.getShape())
    return op.emitOpError("expects partial sums of ")
           << gradient << " side by side, found " << into;
  if (into.getElementType() != gradient.getElementType() ||
      !isa<FloatType>(into.getElementType()))
    return op.emitOpError("expects grains and sums of one floating-point type, "
                          "found ")
           << gradient << " and " << into;
  if (result != into &&
      result !=
          RankedTensorType::get(gradient.getShape(), gradient.getElementType()))
    return op.emitOpError("expects the partial sums or their sum as its "
                          "result, found ")
           << result;
  return success();
}

// AC-1, AC-2.
LogicalResult AccumulateOp::verify() {
  if (getTree())
    return verifyTree(*this);
  if (getInto().getType() != getResult().getType())
    return emitOpError("expects a result of the sum's type ")
           << getInto().getType() << ", found " << getResult().getType();
  if (getGradient().getType().getShape() != getInto().getType().getShape())
    return emitOpError("expects a gradient and a sum of one shape, found ")
           << getGradient().getType() << " and " << getInto().getType();
  if (std::optional<uint64_t> divisor = getDivisor();
      divisor && int64_t(*divisor) < 2)
    return emitOpError("expects to divide by at least 2 micro-batches, found ")
           << int64_t(*divisor);
  return success();
}

//===----------------------------------------------------------------------===//
// Optimizers
//===----------------------------------------------------------------------===//

// One value of the parameter's shape for each parameter.
static LogicalResult verifyPerParameter(Operation *op, ValueRange params,
                                        ValueRange values, StringRef what) {
  if (values.size() != params.size())
    return op->emitOpError("expects one ")
           << what << " for each of " << params.size() << " parameters, found "
           << values.size();
  for (auto [i, param, value] : llvm::enumerate(params, values))
    if (cast<RankedTensorType>(param.getType()).getShape() !=
        cast<RankedTensorType>(value.getType()).getShape())
      return op->emitOpError("expects ")
             << what << " " << i << " of the parameter's shape, found "
             << value.getType() << " for " << param.getType();
  return success();
}

static bool isCode(Type element) {
  return element.isUnsignedInteger(8) || isa<Float8E4M3FNType>(element);
}

/// Elements of all `scales`.
static int64_t countBlocks(ValueRange scales) {
  int64_t count = 0;
  for (Value scale : scales)
    count += cast<RankedTensorType>(scale.getType()).getNumElements();
  return count;
}

// OP-3, BM-2.
static LogicalResult verifyMaxima(Operation *op, ValueRange scales,
                                  Type maxima) {
  auto type = cast<RankedTensorType>(maxima);
  int64_t count = countBlocks(scales);
  if (type.getRank() == 1 && type.getElementType().isF32() &&
      type.getNumElements() == count)
    return success();
  return op->emitOpError("expects maxima of tensor<")
         << count << "xf32>, found " << type;
}

// OP-3, BM-1.
static LogicalResult verifyScales(Operation *op, ValueRange moments,
                                  ValueRange scales, Value maxima) {
  size_t codes = llvm::count_if(moments, [](Value moment) {
    return isCode(cast<RankedTensorType>(moment.getType()).getElementType());
  });
  if ((codes != 0 && codes != moments.size()) || scales.size() != codes)
    return op->emitOpError("expects a scale for each moment, all of them ui8 "
                           "or f8E4M3FN, or none, found ")
           << scales.size() << " scales for " << codes << " codes among "
           << moments.size() << " moments";
  for (auto [moment, scale] : llvm::zip(moments, scales)) {
    auto type = cast<RankedTensorType>(scale.getType());
    int64_t elements =
        cast<RankedTensorType>(moment.getType()).getNumElements();
    int64_t own = llvm::divideCeil(elements, kBlockElements);
    if (!type.getElementType().isF32() ||
        (maxima ? type.getNumElements() < own : type.getNumElements() != own))
      return op->emitOpError("expects scales of f32 for ")
             << own << " blocks of " << moment.getType() << ", found " << type;
  }
  return maxima ? verifyMaxima(op, scales, maxima.getType()) : success();
}

// OP-1, OP-2.
template <typename OpTy>
static LogicalResult verifyKind(OpTy op) {
  const OptimizerFacts &facts = getFacts(op.getKind());
  auto emitError = [&] { return op.emitOpError(); };
  if (failed(verifyNumbers(emitError, op.getNumbers())))
    return failure();
  OptimizerNumbers numbers;
  readNumbers(op.getNumbers(), numbers);
  DictionaryAttr own = getNumbers(op.getContext(), op.getKind(), numbers);
  if (own != op.getNumbers())
    return op.emitOpError("expects the numbers of ")
           << StringRef(facts.name) << ", " << own << ", found "
           << op.getNumbers();
  OperandRange params = op.getParams(), moments = op.getMoments();
  if (failed(verifyPerParameter(op, params, op.getGrads(), "gradient")))
    return failure();
  auto kept = facts.getMoments(numbers);
  if (kept.size() * params.size() != moments.size())
    return op.emitOpError("expects ")
           << kept.size() << " moments for each of " << params.size()
           << " parameters, found " << moments.size();
  for (auto [i, name] : llvm::enumerate(kept))
    if (failed(verifyPerParameter(
            op, params, moments.slice(i * params.size(), params.size()), name)))
      return failure();
  return success();
}

// BM-1, BM-2.
LogicalResult BlockMaximaOp::verify() {
  if (failed(verifyKind(*this)) ||
      failed(verifyScales(*this, getMoments(), getScales(), getMaxima())))
    return failure();
  if (!getScales().empty())
    return success();
  return emitOpError("expects moments of ui8 or f8E4M3FN, found ")
         << (getMoments().empty() ? Type() : getMoments().front().getType());
}

// SQ-1, SQ-2.
static LogicalResult verifyDigits(Operation *op, ValueRange sums) {
  for (Value sum : sums) {
    auto type = cast<RankedTensorType>(sum.getType());
    if (!type.getElementType().isSignlessInteger(64) || type.getRank() != 1 ||
        type.getDimSize(0) != int64_t(std::tuple_size_v<SumDigits>))
      return op->emitOpError("expects the digits of sums, tensor<")
             << int64_t(std::tuple_size_v<SumDigits>) << "xi64>, found "
             << type;
  }
  return success();
}

LogicalResult SquareSumOp::verify() {
  for (Value value : getInputs())
    if (Type element = getElementTypeOrSelf(value.getType());
        !isa<Float32Type, BFloat16Type, Float16Type>(element))
      return emitOpError("expects tensors of f32, bf16 or f16, whose squares "
                         "have an exact sum, found ")
             << value.getType();
  return verifyDigits(*this, getSum());
}

LogicalResult SquareRootOp::verify() {
  if (getSums().empty())
    return emitOpError("expects at least one sum");
  if (auto root = getRoot().getType();
      root.getRank() != 0 || !root.getElementType().isF32())
    return emitOpError("expects a result of tensor<f32>, found ") << root;
  return verifyDigits(*this, getSums());
}

BlockForm DequantizeOp::getForm() {
  return {BlockKind(getKind()), static_cast<int64_t>(getBlockSize()),
          getDoubleQuant()};
}

// DQ-1.
LogicalResult DequantizeOp::verify() {
  if (!getForm().isValid())
    return emitOpError("expects blocks of 32, 64 ... 4096 elements, found ")
           << getBlockSize();
  RankedTensorType type = getResult().getType();
  if (type.getEncoding() || !type.hasStaticShape() ||
      type.getNumElements() == 0 ||
      !isa<Float32Type, BFloat16Type, Float16Type>(type.getElementType()))
    return emitOpError("expects a contiguous result with elements of f32, bf16 "
                       "or f16, found ")
           << type;
  if (RankedTensorType blocks = getQuantizedType(type, getForm());
      getBlocks().getType() != blocks)
    return emitOpError("expects the blocks of ")
           << type << " to have type " << blocks << ", found "
           << getBlocks().getType();
  return success();
}

SmallVector<StateUpdate> UpdateOp::getUpdates() {
  SmallVector<StateUpdate> all{{"parameter", getParams(), getNewParams()}};
  const OptimizerFacts &facts = getFacts(getKind());
  unsigned count = getParams().size();
  if (getMoments().size() == facts.moments.size() * count)
    for (auto [i, name] : llvm::enumerate(facts.moments))
      all.push_back({name, getMoments().slice(i * count, count),
                     getNewMoments().slice(i * count, count)});
  all.push_back({kScales, getScales(), getNewScales()});
  return all;
}

// OP-4.
static LogicalResult verifyRates(UpdateOp op) {
  if (op.getRates().empty())
    return success();
  auto isF32 = [](Value value) {
    return getElementTypeOrSelf(value.getType()).isF32();
  };
  if (op.getParams().size() != 1 || !isF32(op.getParams().front()) ||
      !llvm::all_of(op.getMoments(), isF32))
    return op.emitOpError("with rates updates one parameter of f32, whose "
                          "moments are f32");
  for (Value rate : op.getRates())
    if (!isF32(rate) || cast<RankedTensorType>(rate.getType()).getRank() != 0)
      return op.emitOpError("expects rates of tensor<f32>, found ")
             << rate.getType();
  return success();
}

LogicalResult UpdateOp::verify() {
  if (failed(verifyRates(*this)))
    return failure();
  if (failed(verifyKind(*this)))
    return failure();
  if (!getStep() && (getFacts(getKind()).countsUpdates || getRounding()))
    return emitOpError("expects a step, since ")
           << (getRounding() ? "it rounds at random"
                             : "its kind counts updates");
  if (getNewMoments().size() != getMoments().size() ||
      getNewScales().size() != getScales().size())
    return emitOpError("expects a new value for each of ")
           << getMoments().size() << " moments and " << getScales().size()
           << " scales, found " << getNewMoments().size() << " and "
           << getNewScales().size();
  for (auto [what, olds, news] : getUpdates())
    if (what != kScales && failed(verifyPerParameter(*this, getParams(), news,
                                                     ("new " + what).str())))
      return failure();
  return verifyScales(*this, getMoments(), getScales(), getMaxima());
}
