//===- PlacedValues.cpp - What ranks have of a program's values -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/partition/PlacedValues.h"

#include "ir/aten/Matchers.h"
#include "passes/analysis/Marks.h"
#include "passes/analysis/TensorBuilders.h"
#include "passes/partition/Localize.h"
#include "passes/partition/Redistribute.h"

using namespace mlir;
using namespace fsdp;

const Value *PlacedValues::find(Value captured, Place place) const {
  auto it = placed.find(captured);
  if (it == placed.end())
    return nullptr;
  for (const auto &[at, value] : it->second)
    if (at == place)
      return &value;
  return nullptr;
}

void PlacedValues::setAt(Value captured, Place place, Value value) {
  for (auto &[at, known] : placed[captured])
    if (at == place) {
      known = value;
      return;
    }
  placed[captured].push_back({place, value});
}

void PlacedValues::set(Value captured, Value value, Place place) {
  setAt(captured, place, value);
  places.insert_or_assign(captured, place);
}

RankedTensorType PlacedValues::getWholeType(Value captured) const {
  auto it = wholeTypes.find(captured);
  return it != wholeTypes.end() ? it->second
                                : cast<RankedTensorType>(captured.getType());
}

Place PlacedValues::getPlace(Value captured) const {
  auto it = places.find(captured);
  return it == places.end() ? kWholePlace : it->second;
}

WholeOp PlacedValues::describe(Operation &op) const {
  return WholeOp::of(&op,
                     llvm::map_to_vector(op.getOperands(), [&](Value operand) {
                       return getWholeType(operand);
                     }));
}

Value PlacedValues::get(OpBuilder &builder, Value captured, Place to,
                        bool isBackward) {
  Place from = getPlace(captured);
  if (to == kAnyPlace)
    to = from;
  if (to == kWholePlace && isBackward && axis.alongSequence)
    if (Value again = gatherAgain(builder, captured))
      return again;
  if (const Value *known = find(captured, to))
    return *known;
  if (from == kWholePlace && to == kWholePlace)
    return captured;
  if (Value again = repeat(builder, captured, to, isBackward))
    return again;
  if (to == kWholePlace)
    if (Value wide = widen(builder, captured, isBackward))
      return wide;
  const Value *own = find(captured, from);
  PlacedValue value{own ? *own : captured, from};
  // From another place that it already was brought to, if that is cheaper.
  const Value *whole = find(captured, kWholePlace);
  if (to.isPart() && whole)
    value = {*whole, kWholePlace};
  value = redistribute(builder, captured.getLoc(), value, to,
                       getWholeType(captured), axis);
  setAt(captured, to, value.value);
  if (from.isPart() && to == kWholePlace && !isBackward)
    gatheredInForward[value.value] = captured;
  return value.value;
}

/// Backward gathers again what forward gathered, and views of it: between them
/// a rank keeps its part of the sequence alone. Null if forward did not.
Value PlacedValues::gatherAgain(OpBuilder &builder, Value captured) {
  auto known = gatheredAgain.find(captured);
  if (known != gatheredAgain.end())
    return known->second;
  Place from = getPlace(captured);
  const Value *gathered = find(captured, kWholePlace);
  if (gathered)
    if (Value wide = widen(builder, captured, /*isBackward=*/true))
      return wide;
  if (from.isPart() && gathered && gatheredInForward.contains(*gathered)) {
    Value part = *find(captured, from);
    Value again =
        ReplayOp::create(builder, captured.getLoc(), part.getType(), part);
    again = redistribute(builder, captured.getLoc(), {again, from}, kWholePlace,
                         getWholeType(captured), axis)
                .value;
    gatheredAgain[captured] = again;
    return again;
  }
  auto result = dyn_cast<OpResult>(captured);
  if (!result || from != kWholePlace || !aten::getViewSource(result))
    return {};
  Operation *op = result.getOwner();
  // It may read what was gathered for it, which is no captured value.
  Value source = op->getOperand(0);
  auto of = gatheredInForward.find(source);
  Value whole =
      gatherAgain(builder, of == gatheredInForward.end() ? source : of->second);
  if (!whole || whole.getType() != source.getType())
    return {};
  Operation *again = repeatOn(builder, op, whole);
  for (auto [old, made] :
       llvm::zip_equal(op->getResults(), again->getResults()))
    gatheredAgain.try_emplace(old, made);
  return gatheredAgain.at(captured);
}

/// How a view of a sum is made again of what the sum is exchanged to; none if
/// `captured` is none.
std::optional<Cut> PlacedValues::findRepeat(Value captured, Place to) const {
  auto result = dyn_cast<OpResult>(captured);
  Operation *op = result ? result.getOwner() : nullptr;
  if (!op || op->getNumOperands() != 1 || getPlace(captured) != kPartialPlace ||
      getPlace(op->getOperand(0)) != kPartialPlace ||
      // Sums are smaller than what they are sums of.
      getWholeType(op->getOperand(0)).getNumElements() >
          getWholeType(captured).getNumElements())
    return std::nullopt;
  WholeOp whole = describe(*op);
  if (to == kWholePlace)
    return cuts::whole(whole);
  if (!to.isPart())
    return std::nullopt;
  Pieces pieces = axis.getPieces(whole, {to});
  for (const Cut &cut : findCuts(whole, pieces))
    if (cut.results[result.getResultNumber()] == to &&
        cut.operands.front().isPart())
      return cut;
  return std::nullopt;
}

/// A view of a sum is made again of the exchanged sum, so that all views of it
/// are one exchange; null if `captured` is none.
Value PlacedValues::repeat(OpBuilder &builder, Value captured, Place to,
                           bool isBackward) {
  std::optional<Cut> cut = findRepeat(captured, to);
  if (!cut)
    return {};
  Operation *op = captured.getDefiningOp();
  Value source =
      get(builder, op->getOperand(0), cut->operands.front(), isBackward);
  Operation *again = nullptr;
  if (to == kWholePlace) {
    if (source.getType() != getWholeType(op->getOperand(0)))
      return {};
    again = repeatOn(builder, op, source);
  } else {
    again = buildPart(builder, *op, describe(*op), *cut, {source});
    if (!again)
      return {};
  }
  for (auto [old, result, place] :
       llvm::zip_equal(op->getResults(), again->getResults(), cut->results))
    if (!find(old, place))
      setAt(old, place, result);
  return *find(captured, to);
}

/// What `captured`, of which ranks have parts, is views and copies of, if that
/// has fewer elements (heads that several groups share); null if there is no
/// such value.
Value PlacedValues::findNarrow(Value captured) const {
  Value narrow;
  int64_t least = getWholeType(captured).getNumElements();
  for (Value value = captured; getPlace(value).isPart();) {
    if (getWholeType(value).getNumElements() < least) {
      least = getWholeType(value).getNumElements();
      narrow = value;
    }
    auto result = dyn_cast<OpResult>(value);
    if (!result || result.getOwner()->getNumOperands() != 1 ||
        result.getOwner()->getNumResults() != 1 ||
        !(aten::getViewSource(result) || aten::isClone(result.getOwner())))
      break;
    value = result.getOwner()->getOperand(0);
  }
  return narrow;
}

/// Gathers what `captured` is made of, and makes it of that again; null if it
/// is not made of less.
Value PlacedValues::widen(OpBuilder &builder, Value captured, bool isBackward) {
  Value narrow = findNarrow(captured);
  if (!narrow)
    return {};
  SmallVector<Operation *> chain;
  for (Value value = captured; value != narrow;
       value = value.getDefiningOp()->getOperand(0))
    chain.push_back(value.getDefiningOp());
  Value wide = get(builder, narrow, kWholePlace, isBackward);
  if (wide.getType() != getWholeType(narrow))
    return {};
  for (Operation *op : llvm::reverse(chain))
    wide = repeatOn(builder, op, wide)->getResult(0);
  if (isBackward && axis.alongSequence)
    gatheredAgain[captured] = wide;
  else
    setAt(captured, kWholePlace, wide);
  return wide;
}

std::optional<int64_t> PlacedValues::getCost(Value captured, Place to) const {
  Place from = getPlace(captured);
  if (find(captured, to))
    return 0;
  if (Value narrow = to == kWholePlace ? findNarrow(captured) : Value())
    return getCost(narrow, to);
  // A view of a sum that is exchanged already.
  if (std::optional<Cut> cut = findRepeat(captured, to))
    return getCost(captured.getDefiningOp()->getOperand(0),
                   cut->operands.front());
  if (to.isPart() && find(captured, kWholePlace))
    return 0;
  return getTransferBytes(getWholeType(captured), from, to, axis.getRanks());
}

Operation *PlacedValues::buildPart(OpBuilder &builder, Operation &op,
                                   const WholeOp &whole, const Cut &cut,
                                   SmallVector<Value> operands) const {
  auto typesOf = [&] {
    return llvm::map_to_vector(operands, [](Value operand) {
      return cast<RankedTensorType>(operand.getType());
    });
  };
  FailureOr<SmallVector<Type>> types =
      localizeResults(whole, cut, axis.getRanks(), typesOf());
  if (failed(types)) {
    operands.front() = copyInOrder(builder, op.getLoc(), operands.front());
    types = localizeResults(whole, cut, axis.getRanks(), typesOf());
  }
  if (failed(types)) {
    op.emitOpError("cannot be computed in parts by ")
        << axis.getRanks() << " ranks of '" << axis.group.getName().getValue()
        << "'";
    return nullptr;
  }
  OperationState state(op.getLoc(), op.getName());
  state.addOperands(operands);
  state.addTypes(*types);
  if (op.getPropertiesStorageSize() != 0)
    state.propertiesAttr = localizeStatics(whole, cut, axis.getRanks());
  Operation *part = builder.create(state);
  for (NamedAttribute attr : op.getDiscardableAttrs())
    part->setDiscardableAttr(attr.getName(), attr.getValue());
  markPart(part, &op, llvm::map_to_vector(cut.results, [&](Place place) {
             return axis.toAttr(place);
           }));
  return part;
}
