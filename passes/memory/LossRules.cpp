//===- LossRules.cpp - Which ops can be computed row by row ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Matchers.h"
#include "passes/analysis/Views.h"
#include "passes/memory/LossOperands.h"
#include "passes/memory/LossRegion.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace fsdp;

using Kind = LossRegion::Kind;
using Space = LossRegion::Space;
using Use = LossRegion::Use;

bool LossRegion::setRows(Value value, Rows info) {
  RankedTensorType type = getTensor(value);
  int64_t columns =
      ShapedType::getNumElements(type.getShape().drop_front(info.lead));
  int64_t classes = getTensor(getLinear()->getResult(0)).getDimSize(1);
  info.isWide = columns > 1 && columns * 4 >= classes;
  // Chunks lie row by row.
  if (type.getEncoding() && !getViewSource(cast<OpResult>(value)))
    return refuse(value.getDefiningOp(), "its rows do not lie one behind the "
                                         "other");
  rows[value] = info;
  return true;
}

bool LossRegion::classify(Operation *op) {
  const aten::Schema *schema = aten::lookupSchema(op);
  StringRef name = getName(op);
  if (!schema)
    return refuse(op, "is read by " + name + ", which needs all of its rows");
  if (name == "aten.nll_loss_forward" || name == "aten.nll_loss_backward")
    return classifyLoss(op);
  for (Value operand : op->getOperands())
    if (sums.contains(operand))
      return refuse(op, "its gradient depends on a sum over all rows, such as "
                        "the loss itself");
  if (name == "aten.slice.Tensor" || name == "aten.slice_backward")
    return classifySlice(op, name);
  if (name == "aten.expand")
    return classifyExpand(op);
  if (aten::getViewSource(op->getResult(0)))
    return classifyView(op);
  if (schema->is(aten::Pointwise) || aten::isCast(op))
    return classifyElementwise(op);
  if (name == "aten.mm")
    return classifyProduct(op);
  if (name == "aten.sum" || name == "aten.mean" ||
      name == "aten.sum.dim_IntList" || name == "aten.mean.dim")
    return classifyReduction(op);
  return classifyAlongColumns(op, name);
}

/// Whether the result is zero where one operand is.
static bool keepsZeros(Operation *op, unsigned operand) {
  StringRef name = getName(op);
  if (name == "aten.mul.Tensor")
    return true;
  return operand == 0 &&
         (name == "aten.mul.Scalar" || name == "aten.div.Tensor" ||
          name == "aten.div.Scalar" || name == "aten.neg" ||
          name == "aten.tanh_backward" || aten::isCast(op) ||
          aten::isClone(op));
}

bool LossRegion::classifyElementwise(Operation *op) {
  if (op->getNumResults() != 1)
    return refuse(op, "has several results");
  Value first = getRowsOperand(op);
  if (!first)
    return refuse(op, "its gradient depends on a sum over all rows, such as "
                      "the loss itself");
  RankedTensorType type = getTensor(op->getResult(0));
  Rows own = *getRows(first);
  int64_t columns = getTensor(first).getRank() - int64_t(own.lead);
  own.lead = unsigned(type.getRank() - columns);
  for (Value operand : op->getOperands())
    if (getUse(operand, type, own.lead) == Use::None)
      return refuse(op, "combines rows with what does not belong to each of "
                        "them");
  bool isZero = llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
    const Rows *info = getRows(operand.get());
    return info && info->space == Space::AllZero &&
           keepsZeros(op, operand.getOperandNumber());
  });
  if (own.space != Space::Kept)
    own.space = isZero ? Space::AllZero : Space::All;
  if (!setRows(op->getResult(0), own))
    return false;
  add(op, Kind::Elementwise);
  return true;
}

bool LossRegion::classifyView(Operation *op) {
  Value source = op->getOperand(0), result = op->getResult(0);
  const Rows *info = getRows(source);
  RankedTensorType from = getTensor(source), to = getTensor(result);
  StringRef name = getName(op);
  bool isTranspose = name == "aten.t" ||
                     (name == "aten.transpose.int" && from.getRank() == 2 &&
                      getInteger(op, "dim0") != getInteger(op, "dim1"));
  if (isTranspose && info && info->lead == 1 && from.getRank() == 2) {
    transposed[result] = source;
    add(op, Kind::Transpose);
    return true;
  }
  bool regroups =
      llvm::StringSwitch<bool>(name)
          .Cases({"aten.view", "aten._unsafe_view", "aten.unsqueeze"}, true)
          .Cases({"aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze"},
                 true)
          .Default(false);
  if (!info || !regroups || to.getEncoding())
    return refuse(op, "is read by " + name +
                          ", which does not leave rows as "
                          "they are");
  int64_t count =
      ShapedType::getNumElements(from.getShape().take_front(info->lead));
  unsigned lead = 1, rank = to.getRank();
  while (lead <= rank &&
         ShapedType::getNumElements(to.getShape().take_front(lead)) != count)
    ++lead;
  if (lead > rank)
    return refuse(op, "is read by " + name +
                          ", which takes rows and columns "
                          "together");
  if (!setRows(result, {lead, info->space}))
    return false;
  add(op, Kind::Regroup);
  return true;
}

bool LossRegion::classifyExpand(Operation *op) {
  Value source = op->getOperand(0), result = op->getResult(0);
  const Rows *info = getRows(source);
  RankedTensorType from = getTensor(source), to = getTensor(result);
  if (!info || from.getRank() != to.getRank() ||
      from.getShape().take_front(info->lead) !=
          to.getShape().take_front(info->lead))
    return refuse(op, "is repeated along rows");
  if (!setRows(result, {info->lead, info->space}))
    return false;
  add(op, Kind::Expand);
  return true;
}

bool LossRegion::classifySlice(Operation *op, StringRef name) {
  Value source = op->getOperand(0), result = op->getResult(0);
  const Rows *info = getRows(source);
  bool isForward = name == "aten.slice.Tensor";
  // Dims count in the tensor that is, or was, cut.
  RankedTensorType whole = getTensor(isForward ? source : result);
  if (!info)
    return refuse(op, "slices the transpose of rows");
  Rows own = *info;
  SmallVector<int64_t> dims = getDims(op, "dim", whole.getRank());
  int64_t dim = dims.empty() ? 0 : dims.front();
  if (dim >= int64_t(own.lead))
    return classifyAlongColumns(op, name);
  int64_t size = whole.getDimSize(dim);
  auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  RowSelection told{SmallVector<int64_t>(whole.getShape().take_front(own.lead)),
                    dim, clamp(getInteger(op, "start")),
                    clamp(getInteger(op, "end", size))};
  if (getInteger(op, "step", 1) != 1 || told.start >= told.end ||
      own.space != (isForward ? Space::All : Space::Kept) ||
      (selection && *selection != told))
    return refuse(op, "leaves out other rows than elsewhere");
  selection = told;
  own.space = isForward ? Space::Kept : Space::AllZero;
  if (!setRows(result, own))
    return false;
  add(op, isForward ? Kind::Select : Kind::Unselect);
  return true;
}

bool LossRegion::classifyAlongColumns(Operation *op, StringRef name) {
  bool isKnownOp =
      llvm::StringSwitch<bool>(name)
          .Cases({"aten._log_softmax", "aten._log_softmax_backward_data"}, true)
          .Cases({"aten._softmax", "aten._softmax_backward_data"}, true)
          .Cases({"aten.logsumexp", "aten.amax", "aten.argmax", "aten.max.dim"},
                 true)
          .Cases({"aten.sum.dim_IntList", "aten.mean.dim"}, true)
          .Cases({"aten.gather", "aten.scatter_add", "aten.scatter.value",
                  "aten.scatter.src"},
                 true)
          .Cases({"aten.slice.Tensor", "aten.slice_backward"}, true)
          .Default(false);
  if (!isKnownOp)
    return refuse(op, "is read by " + name +
                          ", which is not known to compute "
                          "rows from rows");
  Value first = getRowsOperand(op);
  if (!first)
    return refuse(op, "reads the transpose of rows");
  Rows own = *getRows(first);
  RankedTensorType type = getTensor(op->getOperand(0));
  SmallVector<int64_t> dims = getDims(op, "dim", type.getRank());
  if (dims.empty() || dims.front() < int64_t(own.lead))
    return refuse(op, "is read by " + name + " across rows");
  for (Value operand : op->getOperands())
    if (Use use = getUse(operand, type, own.lead);
        use != Use::Local && use != Use::Sliced && use != Use::Filled)
      return refuse(op, "combines rows with what does not belong to each of "
                        "them");
  if (own.space == Space::AllZero)
    own.space = Space::All;
  for (Value result : op->getResults())
    if (!setRows(result, own))
      return false;
  add(op, Kind::AlongColumns);
  return true;
}

bool LossRegion::classifyReduction(Operation *op) {
  const Rows *info = getRows(op->getOperand(0));
  if (!info)
    return refuse(op, "sums the transpose of rows");
  int64_t rank = getTensor(op->getOperand(0)).getRank();
  SmallVector<int64_t> dims = getDims(op, "dim", rank);
  auto isRow = [&](int64_t dim) { return dim < int64_t(info->lead); };
  if (!dims.empty() && llvm::none_of(dims, isRow))
    return classifyAlongColumns(op, getName(op));
  if (!dims.empty() && llvm::count_if(dims, isRow) != int64_t(info->lead))
    return refuse(op, "sums over some of the rows apart from others");
  sums.insert(op->getResult(0));
  add(op, Kind::SumRows);
  return true;
}

bool LossRegion::classifyProduct(Operation *op) {
  Value a = op->getOperand(0), b = op->getOperand(1);
  if (const Rows *info = getRows(a); info && !dependent.contains(b)) {
    if (!setRows(op->getResult(0), {1, info->space}))
      return false;
    rows[op->getResult(0)].isWide = false;
    add(op, Kind::InputGradient);
    return true;
  }
  // Of the columns that `a` has, or the rows, the others are those of rows.
  Value gradient = getRows(b) ? b : transposed.lookup(a);
  Value other = getRows(b) ? a : b;
  Operation *turn = other.getDefiningOp();
  bool isTurned =
      turn && getName(turn) == "aten.t" && !dependent.contains(other);
  bool fits = gradient && !dependent.contains(other) &&
              getRows(gradient)->lead == 1 && (other == b || isTurned);
  if (!fits || getTensor(op->getResult(0)).getEncoding())
    return refuse(op, "is multiplied by what depends on it");
  sums.insert(op->getResult(0));
  add(op, Kind::WeightGradient);
  return true;
}

bool LossRegion::classifyLoss(Operation *op) {
  auto [upstream, scores, target, weight, total] = LossOperands(op);
  const Rows *info = getRows(scores);
  if (!info || info->lead != 1 || getTensor(scores).getRank() != 2)
    return refuse(op, "is no loss of rows");
  Rows own = *info;
  int64_t reduction = getInteger(op, "reduction");
  if (getUse(target, getTensor(target), 1) != Use::Sliced ||
      (weight && dependent.contains(weight)))
    return refuse(op, "labels or weights of classes depend on the logits");
  if (getName(op) == "aten.nll_loss_forward") {
    if (reduction != NoReduction)
      sums.insert(op->getResult(0));
    else if (!setRows(op->getResult(0), own))
      return false;
    sums.insert(op->getResult(1));
    add(op, Kind::LossForward);
    return true;
  }
  Use use = getUse(upstream, getTensor(target), 1);
  if (reduction != NoReduction
          ? dependent.contains(upstream)
          : use != Use::Local && use != Use::Sliced && use != Use::Filled)
    return refuse(op, "its gradient depends on a sum over all rows, such as "
                      "the loss itself");
  if (dependent.contains(total)) {
    Operation *forward = total.getDefiningOp();
    if (!contains(forward) || getName(forward) != "aten.nll_loss_forward")
      return refuse(op, "its gradient is divided by what depends on the "
                        "logits");
  }
  if (!setRows(op->getResult(0), own))
    return false;
  add(op, Kind::LossBackward);
  return true;
}
