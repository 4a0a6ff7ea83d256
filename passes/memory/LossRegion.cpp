//===- LossRegion.cpp - A linear layer, its loss and their gradients ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/memory/LossRegion.h"

#include "ir/aten/Matchers.h"
#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/Views.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSwitch.h"

#include <functional>
#include <numeric>

using namespace mlir;
using namespace fsdp;

using Kind = LossRegion::Kind;
using Space = LossRegion::Space;
using Use = LossRegion::Use;

static RankedTensorType getTensor(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static StringRef getName(Operation *op) { return op->getName().getStringRef(); }

static int64_t multiply(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1),
                         std::multiplies<>());
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

int64_t fsdp::getInteger(Operation *op, StringRef name, int64_t otherwise) {
  auto value = dyn_cast_or_null<IntegerAttr>(aten::getStaticArgument(op, name));
  return value ? value.getInt() : otherwise;
}

SmallVector<int64_t> fsdp::getDims(Operation *op, StringRef name,
                                   int64_t rank) {
  SmallVector<int64_t> dims;
  Attribute told = aten::getStaticArgument(op, name);
  if (auto list = dyn_cast_or_null<ArrayAttr>(told))
    for (auto each : list.getAsRange<IntegerAttr>())
      dims.push_back(each.getInt());
  else if (auto one = dyn_cast_or_null<IntegerAttr>(told))
    dims.push_back(one.getInt());
  for (int64_t &dim : dims)
    dim += dim < 0 ? rank : 0;
  llvm::sort(dims);
  return dims;
}

std::optional<Attribute> fsdp::getFill(Operation *op) {
  if (!op || !aten::lookupSchema(op))
    return std::nullopt;
  Builder builder(op->getContext());
  StringRef name = getName(op);
  if (name == "aten.ones_like" || name == "aten.ones" ||
      name == "aten.new_ones")
    return builder.getI64IntegerAttr(1);
  if (name == "aten.zeros_like" || name == "aten.zeros" ||
      name == "aten.new_zeros")
    return builder.getI64IntegerAttr(0);
  if (name == "aten.full_like" || name == "aten.full" ||
      name == "aten.new_full")
    return aten::getStaticArgument(op, "fill_value");
  if (name == "aten.fill.Scalar")
    return aten::getStaticArgument(op, "value");
  return std::nullopt;
}

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
  return selection ? multiply(selection->getKeptShape())
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
// Ops
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

bool LossRegion::setRows(Value value, Rows info) {
  RankedTensorType type = getTensor(value);
  int64_t columns = multiply(type.getShape().drop_front(info.lead));
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
  RankedTensorType type = getTensor(op->getResult(0));
  std::optional<Rows> found;
  bool isZero = false;
  for (OpOperand &operand : op->getOpOperands())
    if (const Rows *info = getRows(operand.get())) {
      if (!found)
        found = *info;
      isZero |= info->space == Space::AllZero &&
                keepsZeros(op, operand.getOperandNumber());
    }
  if (!found)
    return refuse(op, "its gradient depends on a sum over all rows, such as "
                      "the loss itself");
  int64_t columns =
      getTensor(*llvm::find_if(
                    op->getOperands(),
                    [&](Value operand) { return getRows(operand) != nullptr; }))
          .getRank() -
      int64_t(found->lead);
  found->lead = unsigned(type.getRank() - columns);
  for (Value operand : op->getOperands())
    if (getUse(operand, type, found->lead) == Use::None)
      return refuse(op, "combines rows with what does not belong to each of "
                        "them");
  if (found->space != Space::Kept)
    found->space = isZero ? Space::AllZero : Space::All;
  if (!setRows(op->getResult(0), *found))
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
  int64_t count = multiply(from.getShape().take_front(info->lead));
  unsigned lead = 1, rank = to.getRank();
  while (lead <= rank && multiply(to.getShape().take_front(lead)) != count)
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
  const Rows *info = nullptr;
  for (Value operand : op->getOperands())
    if (const Rows *each = getRows(operand); each && !info)
      info = each;
  if (!info)
    return refuse(op, "reads the transpose of rows");
  Rows own = *info;
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
  SmallVector<aten::BoundTensors> bound = aten::getTensorArguments(op);
  auto get = [&](unsigned i) {
    return bound[i].tensors.empty() ? Value() : bound[i].tensors.front();
  };
  bool isForward = getName(op) == "aten.nll_loss_forward";
  unsigned first = isForward ? 0 : 1;
  Value scores = get(first), target = get(first + 1), weight = get(first + 2);
  const Rows *info = getRows(scores);
  if (!info || info->lead != 1 || getTensor(scores).getRank() != 2)
    return refuse(op, "is no loss of rows");
  Rows own = *info;
  int64_t reduction = getInteger(op, "reduction");
  if (getUse(target, getTensor(target), 1) != Use::Sliced ||
      (weight && dependent.contains(weight)))
    return refuse(op, "labels or weights of classes depend on the logits");
  if (isForward) {
    if (reduction != NoReduction)
      sums.insert(op->getResult(0));
    else if (!setRows(op->getResult(0), own))
      return false;
    sums.insert(op->getResult(1));
    add(op, Kind::LossForward);
    return true;
  }
  Value upstream = get(0), total = get(4);
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
