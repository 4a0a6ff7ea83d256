//===- LossRegion.cpp - A linear layer, its loss and their gradients ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/memory/LossRegion.h"

#include "ir/aten/Matchers.h"
#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/Views.h"
#include "passes/memory/LossOperands.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace fsdp;

using Use = LossRegion::Use;

//===----------------------------------------------------------------------===//
// The layer
//===----------------------------------------------------------------------===//

/// The product of matrices whose rows `value` has, however they were scaled,
/// cast and regrouped since.
static Operation *findLinear(Value value, std::optional<NotChunked> &reason) {
  Operation *op = value.getDefiningOp();
  if (!op) {
    reason = {value.getLoc(), "its rows are an input of the program, not what "
                              "a linear layer makes"};
    return nullptr;
  }
  if (getName(op) == "aten.mm" || getName(op) == "aten.addmm")
    return op;
  const aten::Schema *schema = aten::lookupSchema(op);
  auto result = cast<OpResult>(value);
  if (Value source = getViewSource(result))
    return findLinear(source, reason);
  if (schema && (schema->is(aten::Pointwise) || aten::isCast(op))) {
    Operation *found = nullptr;
    for (Value operand : op->getOperands())
      if (!found && getTensor(operand).getNumElements() ==
                        getTensor(value).getNumElements())
        found = findLinear(operand, reason);
    if (found)
      return found;
    if (reason)
      return nullptr;
  }
  reason = {op->getLoc(),
            ("its rows come from " + getName(op) + ", which is no linear layer")
                .str()};
  return nullptr;
}

LossRegion::LossRegion(Operation *linear) {
  Value logits = linear->getResult(0);
  add(linear, Kind::Linear);
  rows[logits] = {1, Space::All, true};
  dependent.insert(logits);
  for (Operation *op = linear->getNextNode(); op; op = op->getNextNode()) {
    bool readsValues =
        !getFill(op) && llvm::any_of(op->getOperands(), [&](Value operand) {
          return dependent.contains(operand);
        });
    if (readsValues)
      dependent.insert_range(op->getResults());
  }
}

std::optional<LossRegion> LossRegion::find(Operation *softmax,
                                           std::optional<NotChunked> &reason) {
  RankedTensorType type = getTensor(softmax->getOperand(0));
  SmallVector<int64_t> dims = getDims(softmax, "dim", type.getRank());
  if (type.getRank() < 2 || dims.front() != type.getRank() - 1) {
    reason = {softmax->getLoc(),
              "its classes are dim " + std::to_string(dims.front()) + " of " +
                  std::to_string(type.getRank()) +
                  "; those of a linear layer are the last of at least 2"};
    return std::nullopt;
  }
  Operation *linear = findLinear(softmax->getOperand(0), reason);
  if (!linear)
    return std::nullopt;
  LossRegion region(linear);
  RankedTensorType logits = getTensor(linear->getResult(0));
  RankedTensorType input = getTensor(region.getInput());
  if (input.getRank() != 2 || logits.getEncoding() ||
      logits.getDimSize(0) < 2) {
    reason = {linear->getLoc(), "it has no rows that could be taken apart"};
    return std::nullopt;
  }
  if (region.grow() && region.contains(softmax))
    return region;
  reason = region.reason ? *region.reason
                         : NotChunked{softmax->getLoc(),
                                      "its rows are not those of the layer"};
  return std::nullopt;
}

Value LossRegion::getInput() const {
  return getLinear()->getOperand(getLinear()->getNumOperands() - 2);
}

Value LossRegion::getMatrix() const {
  return getLinear()->getOperand(getLinear()->getNumOperands() - 1);
}

int64_t LossRegion::getCount() const {
  return selection ? ShapedType::getNumElements(selection->getKeptShape())
                   : getTensor(getLinear()->getResult(0)).getDimSize(0);
}

//===----------------------------------------------------------------------===//
// What belongs to it
//===----------------------------------------------------------------------===//

bool LossRegion::refuse(Operation *op, const Twine &text) {
  if (!reason)
    reason = {op->getLoc(), text.str()};
  return false;
}

void LossRegion::add(Operation *op, Kind kind) {
  members.push_back({op, kind});
  own.insert(op);
}

bool LossRegion::readsWide(Operation *op) const {
  return !getFill(op) && llvm::any_of(op->getOperands(), [&](Value operand) {
    const Rows *info = getRows(operand);
    return (info && info->isWide) || transposed.contains(operand);
  });
}

Value LossRegion::getRowsOperand(Operation *op) const {
  for (Value operand : op->getOperands())
    if (getRows(operand))
      return operand;
  return {};
}

bool LossRegion::isRead(Value value) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return !own.contains(user) && !getFill(user);
  });
}

/// What a value becomes wide by may come in front of what reads it or behind.
bool LossRegion::grow() {
  for (bool isDone = false; !isDone;) {
    isDone = true;
    for (Operation *op = getLinear()->getNextNode();
         !op->hasTrait<OpTrait::IsTerminator>(); op = op->getNextNode())
      if (!contains(op) && readsWide(op)) {
        if (!include(op))
          return false;
        isDone = false;
      }
  }
  llvm::sort(members, [](const Member &a, const Member &b) {
    return a.op->isBeforeInBlock(b.op);
  });
  return verifyReaders();
}

bool LossRegion::include(Operation *op) {
  for (Value operand : op->getOperands())
    if (dependent.contains(operand) && !isKnown(operand) &&
        !include(operand.getDefiningOp()))
      return false;
  return contains(op) || classify(op);
}

bool LossRegion::verifyReaders() {
  for (const auto &[op, kind] : members) {
    bool isSum = kind == Kind::SumRows || kind == Kind::WeightGradient ||
                 kind == Kind::LossForward;
    for (Value operand : op->getOperands()) {
      Value source = transposed.lookup(operand);
      const Rows *info = getRows(source ? source : operand);
      if (selection && isSum && info && info->space == Space::All)
        return refuse(op, "sums over rows that a slice leaves out elsewhere");
    }
    for (Value result : op->getResults()) {
      const Rows *info = getRows(result);
      bool isWide = (info && info->isWide) || transposed.contains(result);
      for (OpOperand &use : result.getUses()) {
        Operation *user = use.getOwner();
        if (contains(user) || getFill(user))
          continue;
        if (isWide && user->hasTrait<OpTrait::IsTerminator>()) {
          auto func = cast<func::FuncOp>(user->getParentOp());
          auto name = func.getResultAttrOfType<StringAttr>(
              use.getOperandNumber(), kOutputAttr);
          return refuse(op, name
                                ? "the output '" + name.getValue() +
                                      "' has all of its rows"
                                : Twine("the program returns all of its rows"));
        }
        if (selection && info && info->space == Space::All)
          return refuse(op, "is read for rows that a slice leaves out "
                            "elsewhere");
      }
    }
  }
  return true;
}

//===----------------------------------------------------------------------===//
// How ops take what they read
//===----------------------------------------------------------------------===//

Use LossRegion::getUse(Value operand, RankedTensorType type,
                       unsigned lead) const {
  RankedTensorType own = getTensor(operand);
  ArrayRef<int64_t> shape = own.getShape();
  int64_t columns = type.getRank() - lead;
  ArrayRef<int64_t> leads = type.getShape().take_front(lead);
  if (const Rows *info = getRows(operand))
    return own.getRank() - int64_t(info->lead) == columns &&
                   shape.take_front(info->lead) == leads
               ? Use::Local
               : Use::None;
  if (dependent.contains(operand))
    return Use::None;
  if (own.getRank() <= columns)
    return Use::Invariant;
  ArrayRef<int64_t> front = shape.drop_back(columns);
  if (front == leads)
    return getFill(operand.getDefiningOp()) ? Use::Filled : Use::Sliced;
  if (llvm::all_of(front, [](int64_t size) { return size == 1; }))
    return Use::Squeezed;
  for (auto [size, wanted] :
       llvm::zip(llvm::reverse(front), llvm::reverse(leads)))
    if (size != 1 && size != wanted)
      return Use::None;
  return Use::Spread;
}
