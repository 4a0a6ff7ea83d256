//===- LossChunks.cpp - A loss in chunks of its rows ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/memory/LossChunks.h"

#include "ir/aten/Matchers.h"
#include "passes/analysis/Views.h"
#include "passes/memory/LossOps.h"

using namespace mlir;
using namespace fsdp;

namespace {

using Kind = LossRegion::Kind;
using Space = LossRegion::Space;
using Use = LossRegion::Use;

bool isHalf(Type element) { return element.isF16() || element.isBF16(); }

/// The stride of the rows if the first `lead` dims can be one dim.
std::optional<int64_t> getRowStride(RankedTensorType type, unsigned lead) {
  SmallVector<int64_t> strides = aten::getStrides(type);
  std::optional<int64_t> stride, next;
  for (unsigned i = lead; i-- > 0;) {
    if (type.getDimSize(i) == 1)
      continue;
    if (next && strides[i] != *next)
      return std::nullopt;
    if (!stride)
      stride = strides[i];
    next = strides[i] * type.getDimSize(i);
  }
  return stride ? stride : int64_t(1);
}

class Chunker {
public:
  Chunker(func::FuncOp func, const LossRegion &region, int64_t chunks,
          const StateTable &states)
      : func(func), region(region), states(states), linear(region.getLinear()),
        ops(linear), rows((region.getCount() + chunks - 1) / chunks) {}

  void run() {
    forgetShapes();
    hoistInputs();
    for (start = 0; start < region.getCount(); start = end) {
      end = std::min(start + rows, region.getCount());
      local.clear();
      own.clear();
      for (const LossRegion::Member &member : region.getMembers()) {
        ops.setLoc(member.op->getLoc());
        build(member);
      }
    }
    for (const LossRegion::Member &member : region.getMembers()) {
      ops.setLoc(member.op->getLoc());
      finish(member);
    }
    for (const LossRegion::Member &member : llvm::reverse(region.getMembers()))
      member.op->erase();
  }

private:
  //===--------------------------------------------------------------------===//
  // What comes in
  //===--------------------------------------------------------------------===//

  /// What reads a tensor for its shape does not need it.
  void forgetShapes() {
    SmallVector<Operation *> readers;
    for (Operation *op = linear; op; op = op->getNextNode())
      if (getFill(op) && llvm::any_of(op->getOperands(), [&](Value operand) {
            return region.dependsOnLogits(operand);
          }))
        readers.push_back(op);
    for (Operation *op : readers) {
      RankedTensorType type = getTensor(op->getResult(0));
      LossOps here(op);
      op->getResult(0).replaceAllUsesWith(
          here.fill(op, type.getShape(), type.getElementType()));
      op->erase();
    }
  }

  /// Moves what makes a value, which does not depend on the logits, in front of
  /// the chunks.
  void hoist(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || op->isBeforeInBlock(linear) || region.contains(op))
      return;
    for (Value operand : op->getOperands())
      hoist(operand);
    op->moveBefore(linear);
  }

  void hoistInputs() {
    for (const LossRegion::Member &member : region.getMembers())
      for (Value operand : member.op->getOperands())
        hoist(operand);
  }

  /// The rows of a value from outside that are computed, one behind the other
  /// along the first dim. `isAll`: it has those too that a selection leaves
  /// out.
  Value getWhole(Value value, unsigned lead, bool isAll) {
    Value &known = whole[value];
    if (known)
      return known;
    // Once, in front of all chunks.
    OpBuilder::InsertionGuard guard(ops.get());
    if (firstChunk)
      ops.get().setInsertionPoint(firstChunk);
    RankedTensorType type = getTensor(value);
    ArrayRef<int64_t> columns = type.getShape().drop_front(lead);
    SmallVector<int64_t> shape = joinSizes({region.getCount()}, columns);
    const std::optional<RowSelection> &selection = region.getSelection();
    if (isAll && selection) {
      Value grouped =
          ops.view(ops.copy(value), joinSizes(selection->shape, columns));
      Value kept =
          ops.slice(grouped, selection->dim, selection->start, selection->end);
      return known = ops.view(ops.copy(kept), shape);
    }
    if (lead == 1)
      return known = value;
    std::optional<int64_t> stride = getRowStride(type, lead);
    if (!type.getEncoding() || !stride)
      return known = ops.view(ops.copy(value), shape);
    SmallVector<int64_t> strides =
        joinSizes({*stride}, ArrayRef(aten::getStrides(type)).drop_front(lead));
    return known = ops.make(
               "aten.view", {value}, ops.integers("size", shape),
               aten::getTensorType(shape, strides, type.getElementType()));
  }

  Value getOwn(Value value, unsigned lead, bool isAll) {
    Value &known = own[value];
    if (!known)
      known = ops.slice(getWhole(value, lead, isAll), 0, start, end);
    return known;
  }

  /// `operand` as an op takes it whose result has `type` with `lead` dims of
  /// rows.
  Value take(Value operand, RankedTensorType type, unsigned lead, bool isAll) {
    RankedTensorType given = getTensor(operand);
    ArrayRef<int64_t> columns = given.getShape();
    columns = columns.take_back(
        std::min<size_t>(columns.size(), type.getRank() - lead));
    switch (region.getUse(operand, type, lead)) {
    case Use::Local:
      return local.at(operand);
    case Use::Sliced:
      return getOwn(operand, lead, isAll);
    case Use::Filled:
      return ops.fill(operand.getDefiningOp(),
                      joinSizes({end - start}, columns),
                      given.getElementType());
    case Use::Squeezed:
      return ops.view(ops.copy(operand), columns);
    case Use::Spread: {
      Value &spread = spreads[{operand, type}];
      if (!spread) {
        OpBuilder::InsertionGuard guard(ops.get());
        if (firstChunk)
          ops.get().setInsertionPoint(firstChunk);
        spread = ops.copy(ops.expand(
            operand, joinSizes(type.getShape().take_front(lead), columns)));
      }
      return getOwn(spread, lead, isAll);
    }
    case Use::Invariant:
    case Use::None:
      break;
    }
    return operand;
  }

  //===--------------------------------------------------------------------===//
  // A chunk
  //===--------------------------------------------------------------------===//

  RankedTensorType getChunkType(Value value) {
    RankedTensorType type = getTensor(value);
    ArrayRef<int64_t> columns =
        type.getShape().drop_front(region.getRows(value)->lead);
    return RankedTensorType::get(joinSizes({end - start}, columns),
                                 type.getElementType());
  }

  void set(Value value, Value chunk) {
    local[value] = chunk;
    const LossRegion::Rows *info = region.getRows(value);
    if (info && !info->isWide && region.isRead(value))
      pieces[value].push_back(ops.copy(chunk));
  }

  void build(const LossRegion::Member &member) {
    Operation *op = member.op;
    switch (member.kind) {
    case Kind::Linear:
      return buildLinear(op);
    case Kind::Elementwise:
      return buildElementwise(op);
    case Kind::Regroup:
      return set(op->getResult(0),
                 ops.view(ops.copy(local.at(op->getOperand(0))),
                          getChunkType(op->getResult(0)).getShape()));
    case Kind::Expand:
      return set(op->getResult(0),
                 ops.expand(local.at(op->getOperand(0)),
                            getChunkType(op->getResult(0)).getShape()));
    case Kind::Select:
    case Kind::Unselect:
      return set(op->getResult(0), local.at(op->getOperand(0)));
    case Kind::AlongColumns:
      return buildAlongColumns(op);
    case Kind::Transpose:
      local[op->getResult(0)] = ops.transpose(local.at(op->getOperand(0)));
      return;
    case Kind::InputGradient:
      return set(op->getResult(0),
                 ops.remake(op,
                            {local.at(op->getOperand(0)), op->getOperand(1)},
                            getChunkType(op->getResult(0)))
                     ->getResult(0));
    case Kind::WeightGradient:
      return buildWeightGradient(op);
    case Kind::SumRows:
      return buildSum(op);
    case Kind::LossForward:
      return buildLoss(op);
    case Kind::LossBackward:
      return buildLossBackward(op);
    }
  }

  void buildLinear(Operation *op) {
    RankedTensorType type = getTensor(op->getResult(0));
    // The first op of a chunk, which what all of them read stands in front of.
    Value input = getOwn(region.getInput(), 1, /*isAll=*/true);
    if (!firstChunk)
      firstChunk = input.getDefiningOp();
    SmallVector<Value> operands(op->getOperands());
    operands[operands.size() - 2] = input;
    if (operands.size() == 3)
      operands[0] = take(operands[0], type, 1, /*isAll=*/true);
    set(op->getResult(0),
        ops.remake(op, operands, getChunkType(op->getResult(0)))->getResult(0));
  }

  void buildElementwise(Operation *op) {
    Value result = op->getResult(0);
    const LossRegion::Rows *info = region.getRows(result);
    RankedTensorType type = getChunkType(result);
    // What is a copy for its layout alone is one already.
    if (aten::isClone(op) && local.at(op->getOperand(0)).getType() == type)
      return set(result, local.at(op->getOperand(0)));
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(take(operand, getTensor(result), info->lead,
                              info->space != Space::Kept));
    set(result, ops.remake(op, operands, type)->getResult(0));
  }

  void buildAlongColumns(Operation *op) {
    const LossRegion::Rows *info = region.getRows(region.getRowsOperand(op));
    RankedTensorType type = getTensor(op->getOperand(0));
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(
          take(operand, type, info->lead, info->space != Space::Kept));
    NamedAttrList arguments(
        cast<DictionaryAttr>(op->getPropertiesAsAttribute()));
    OpBuilder &builder = ops.get();
    // Dims count from the rows, which are one.
    SmallVector<int64_t> dims = getDims(op, "dim", type.getRank());
    for (int64_t &dim : dims)
      dim -= int64_t(info->lead) - 1;
    if (isa_and_nonnull<ArrayAttr>(arguments.get("dim")))
      arguments.set("dim", builder.getI64ArrayAttr(dims));
    else
      arguments.set("dim", builder.getI64IntegerAttr(dims.front()));
    if (arguments.get("input_sizes"))
      arguments.set(
          "input_sizes",
          builder.getI64ArrayAttr(getChunkType(op->getResult(0)).getShape()));
    SmallVector<Type> types;
    for (Value result : op->getResults()) {
      RankedTensorType chunk = getChunkType(result);
      if (getViewSource(cast<OpResult>(result)))
        chunk = aten::getTensorType(
            chunk.getShape(), aten::getStrides(getTensor(operands.front())),
            chunk.getElementType());
      types.push_back(chunk);
    }
    Operation *made = ops.remake(op, operands, types,
                                 arguments.getDictionary(func.getContext()));
    for (auto [result, chunk] :
         llvm::zip_equal(op->getResults(), made->getResults()))
      set(result, chunk);
  }

  //===--------------------------------------------------------------------===//
  // Sums over all rows
  //===--------------------------------------------------------------------===//

  /// The element type that parts of `value` are added up in: that in which a
  /// gradient of a parameter is reduced if it is one, and no half one for
  /// others.
  Type getSumType(Value value) {
    Type element = getTensor(value).getElementType();
    if (Type reduce = findReduceType(value))
      return isHalf(element) && reduce.isF32() ? reduce : element;
    return isHalf(element) ? Type(Float32Type::get(func.getContext()))
                           : element;
  }

  /// That of the parameter that `value` is the gradient of, through views,
  /// casts and sums; null if there is none.
  Type findReduceType(Value value) {
    SmallVector<Value> worklist{value};
    for (unsigned i = 0; i < worklist.size() && i < 16; ++i)
      for (OpOperand &use : worklist[i].getUses()) {
        Operation *user = use.getOwner();
        if (user->hasTrait<OpTrait::IsTerminator>()) {
          StateOp state =
              states.lookup(func.getResultAttrOfType<FlatSymbolRefAttr>(
                  use.getOperandNumber(), kGradientAttr));
          if (state)
            return state.getReduceType();
        } else if (user->getNumResults() == 1 &&
                   (getViewSource(user->getResult(0)) || aten::isCast(user) ||
                    aten::isClone(user) ||
                    getName(user) == "aten.add.Tensor")) {
          worklist.push_back(user->getResult(0));
        }
      }
    return {};
  }

  void buildWeightGradient(Operation *op) {
    Value a = op->getOperand(0), b = op->getOperand(1);
    Value left, right;
    if (const LossRegion::Rows *info = region.getRows(b)) {
      Value input = a.getDefiningOp()->getOperand(0);
      left = ops.transpose(getOwn(input, 1, info->space != Space::Kept));
      right = local.at(b);
    } else {
      info = region.getRows(region.getTransposed(a));
      left = local.at(a);
      right = getOwn(b, 1, info->space != Space::Kept);
    }
    RankedTensorType type = getTensor(op->getResult(0));
    Value &sum = sums[op->getResult(0)];
    Type element = getSumType(op->getResult(0));
    if (sum && element == type.getElementType()) {
      sum = ops.make("aten.addmm", {sum, left, right}, {}, type);
      return;
    }
    Value part = ops.make("aten.mm", {left, right}, {}, type);
    sum = sum ? ops.add(sum, part) : ops.cast(part, element);
  }

  void addPart(Value value, Value part) {
    // The loss needs numbers, and forward ends where they are there.
    if (getTensor(part).getRank() == 0) {
      numbers[value].push_back(part);
      return;
    }
    Value &sum = sums[value];
    sum = sum ? ops.add(sum, part) : part;
  }

  void buildSum(Operation *op) {
    Value source = op->getOperand(0), result = op->getResult(0);
    const LossRegion::Rows *info = region.getRows(source);
    Value chunk = local.at(source);
    Type from = getTensor(source).getElementType();
    SmallVector<int64_t> dims = getDims(op, "dim", getTensor(source).getRank());
    auto keep =
        dyn_cast_or_null<BoolAttr>(aten::getStaticArgument(op, "keepdim"));
    SmallVector<NamedAttribute> arguments;
    Type element = isa<FloatType>(from) ? getSumType(result)
                                        : getTensor(result).getElementType();
    bool widens = aten::getStaticArgument(op, "dtype") ||
                  (isa<FloatType>(from) && element != from);
    if (widens)
      arguments.push_back(ops.type(element));
    SmallVector<int64_t> shape;
    StringRef name = "aten.sum";
    if (!dims.empty()) {
      name = "aten.sum.dim_IntList";
      SmallVector<int64_t> summed{0};
      for (int64_t dim : dims)
        if (dim >= int64_t(info->lead))
          summed.push_back(dim - int64_t(info->lead) + 1);
      arguments.push_back(ops.integers("dim", summed));
      if (keep)
        arguments.push_back(ops.get().getNamedAttr("keepdim", keep));
      for (auto [dim, size] : llvm::enumerate(getTensor(chunk).getShape()))
        if (!llvm::is_contained(summed, int64_t(dim)))
          shape.push_back(size);
        else if (keep && keep.getValue())
          shape.push_back(1);
    }
    addPart(result, ops.make(name, {chunk}, arguments,
                             RankedTensorType::get(shape, element)));
  }

  /// By what a mean over all rows divides their sum.
  int64_t getDivisor(Operation *op) {
    bool isMean = getName(op).starts_with("aten.mean");
    if (!isMean)
      return 1;
    RankedTensorType type = getTensor(op->getOperand(0));
    const LossRegion::Rows *info = region.getRows(op->getOperand(0));
    SmallVector<int64_t> dims = getDims(op, "dim", type.getRank());
    int64_t count = 1;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if (dims.empty() || dim < int64_t(info->lead) ||
          llvm::is_contained(dims, dim))
        count *= type.getDimSize(dim);
    return count;
  }

  //===--------------------------------------------------------------------===//
  // Losses
  //===--------------------------------------------------------------------===//

  /// What a mean divides by: the weights of the classes that the labels name,
  /// of all rows.
  Value getTotal(Operation *forward, Type element) {
    Value &known = totals[{forward, element}];
    if (known)
      return known;
    OpBuilder::InsertionGuard guard(ops.get());
    ops.get().setInsertionPoint(firstChunk);
    LossOperands operands(forward);
    bool isAll = region.getRows(operands.scores)->space != Space::Kept;
    Value labels = getWhole(operands.target, 1, isAll);
    RankedTensorType type = getTensor(labels);
    RankedTensorType flags = type.clone(ops.get().getI1Type());
    NamedAttribute ignored =
        ops.integer("other", getInteger(forward, "ignore_index"));
    auto scalar = [](Type of) { return RankedTensorType::get({}, of); };
    if (!operands.weight) {
      Value counts = ops.make("aten.ne.Scalar", {labels}, ignored, flags);
      Value count =
          ops.make("aten.sum", {counts}, {}, scalar(ops.get().getI64Type()));
      return known = ops.cast(count, element);
    }
    Value isIgnored = ops.make("aten.eq.Scalar", {labels}, ignored, flags);
    NamedAttribute zero = ops.integer("value", 0);
    Value index =
        ops.make("aten.masked_fill.Scalar", {labels, isIgnored}, zero, type);
    RankedTensorType weights =
        type.clone(getTensor(operands.weight).getElementType());
    Value each = ops.make("aten.index_select", {operands.weight, index},
                          ops.integer("dim", 0), weights);
    Value counted =
        ops.make("aten.masked_fill.Scalar", {each, isIgnored}, zero, weights);
    SmallVector<NamedAttribute> arguments;
    if (weights.getElementType() != element)
      arguments.push_back(ops.type(element));
    return known = ops.make("aten.sum", {counted}, arguments, scalar(element));
  }

  Operation *makeLoss(Operation *op, int64_t reduction, Type loss) {
    LossOperands operands(op);
    bool isAll = region.getRows(operands.scores)->space != Space::Kept;
    return aten::buildAtenOp(
        ops.get(), ops.getLoc(), "aten.nll_loss_forward",
        {local.at(operands.scores), getOwn(operands.target, 1, isAll),
         operands.weight},
        {ops.integer("reduction", reduction),
         ops.integer("ignore_index", getInteger(op, "ignore_index"))},
        {loss, op->getResult(1).getType()});
  }

  void buildLoss(Operation *op) {
    Value result = op->getResult(0);
    Type element = getTensor(result).getElementType();
    auto f32 = Float32Type::get(func.getContext());
    auto each = RankedTensorType::get({end - start}, element);
    if (getInteger(op, "reduction") == NoReduction) {
      Operation *made = makeLoss(op, NoReduction, each);
      local[op->getResult(1)] = made->getResult(1);
      return set(result, made->getResult(0));
    }
    if (isHalf(element)) {
      // The sum of many rows is more than half types hold.
      Operation *made = makeLoss(op, NoReduction, each);
      addPart(result, ops.make("aten.sum", {made->getResult(0)}, ops.type(f32),
                               RankedTensorType::get({}, f32)));
      local[op->getResult(1)] = made->getResult(1);
      return;
    }
    Operation *made = makeLoss(op, SumReduction, result.getType());
    local[op->getResult(1)] = made->getResult(1);
    addPart(result, made->getResult(0));
  }

  void buildLossBackward(Operation *op) {
    LossOperands operands(op);
    const LossRegion::Rows *info = region.getRows(operands.scores);
    bool isAll = info->space != Space::Kept;
    int64_t reduction = getInteger(op, "reduction");
    Value upstream = operands.upstream, total = operands.total;
    if (reduction == NoReduction)
      upstream = take(upstream, getTensor(operands.target), 1, isAll);
    if (Operation *forward = total.getDefiningOp();
        forward && region.contains(forward))
      total = reduction == MeanReduction
                  ? getTotal(forward, getTensor(total).getElementType())
                  : local.at(total);
    Value result = op->getResult(0);
    set(result,
        ops.make("aten.nll_loss_backward",
                 {upstream, local.at(operands.scores),
                  getOwn(operands.target, 1, isAll), operands.weight, total},
                 {ops.integer("reduction", reduction),
                  ops.integer("ignore_index", getInteger(op, "ignore_index"))},
                 getChunkType(result)));
  }

  //===--------------------------------------------------------------------===//
  // What goes out
  //===--------------------------------------------------------------------===//

  void finish(const LossRegion::Member &member) {
    Operation *op = member.op;
    for (Value result : op->getResults())
      if (auto it = pieces.find(result); it != pieces.end())
        result.replaceAllUsesWith(joinPieces(result, it->second));
    if (member.kind == Kind::LossForward)
      return finishLoss(op);
    if (member.kind == Kind::WeightGradient || member.kind == Kind::SumRows)
      finishSum(op);
  }

  /// The rows of all chunks, in the places in which they were computed.
  Value joinPieces(Value value, ArrayRef<Value> parts) {
    const LossRegion::Rows *info = region.getRows(value);
    RankedTensorType type = getTensor(value);
    SmallVector<int64_t> offsets;
    int64_t size = 0;
    for (Value part : parts) {
      offsets.push_back(size);
      size += getTensor(part).getNumElements();
    }
    Value packed =
        PackOp::create(ops.get(), ops.getLoc(),
                       RankedTensorType::get({size}, type.getElementType()),
                       parts, offsets, FlatSymbolRefAttr());
    if (info->space != Space::AllZero || !region.getSelection())
      return ops.view(packed, type.getShape());
    const RowSelection &selection = *region.getSelection();
    ArrayRef<int64_t> columns = type.getShape().drop_front(info->lead);
    SmallVector<int64_t> shape = joinSizes(selection.shape, columns);
    Value whole = ops.make(
        "aten.slice_backward",
        {ops.view(packed, joinSizes(selection.getKeptShape(), columns))},
        {ops.integers("input_sizes", shape), ops.integer("dim", selection.dim),
         ops.integer("start", selection.start),
         ops.integer("end", selection.end), ops.integer("step", 1)},
        RankedTensorType::get(shape, type.getElementType()));
    return ops.view(whole, type.getShape());
  }

  Value getSum(Value value) {
    if (Value sum = sums.lookup(value))
      return sum;
    ArrayRef<Value> parts = numbers[value];
    Value sum = parts.front();
    for (Value part : parts.drop_front())
      sum = ops.add(sum, part);
    return sum;
  }

  void finishSum(Operation *op) {
    Value result = op->getResult(0);
    if (!region.isRead(result))
      return;
    Value sum = getSum(result);
    RankedTensorType type = getTensor(result);
    if (int64_t divisor = getDivisor(op); divisor != 1)
      sum = ops.make("aten.div.Scalar", {sum},
                     ops.get().getNamedAttr(
                         "other", ops.get().getF64FloatAttr(double(divisor))),
                     getTensor(sum));
    sum = ops.view(sum, type.getShape());
    // A cast to the type that it is in is none.
    for (Operation *user : llvm::make_early_inc_range(result.getUsers()))
      if (aten::isPlainCast(user) &&
          user->getResult(0).getType() == sum.getType()) {
        user->getResult(0).replaceAllUsesWith(sum);
        user->erase();
      }
    if (!result.use_empty())
      result.replaceAllUsesWith(ops.cast(sum, type.getElementType()));
  }

  void finishLoss(Operation *op) {
    Value result = op->getResult(0), total = op->getResult(1);
    int64_t reduction = getInteger(op, "reduction");
    if (reduction != NoReduction && region.isRead(result)) {
      Value sum = getSum(result);
      if (reduction == MeanReduction)
        sum = ops.divide(sum, getTotal(op, getTensor(sum).getElementType()));
      result.replaceAllUsesWith(
          ops.cast(sum, getTensor(result).getElementType()));
    }
    if (region.isRead(total))
      total.replaceUsesWithIf(
          getTotal(op, getTensor(total).getElementType()),
          [&](OpOperand &use) { return !region.contains(use.getOwner()); });
  }

  func::FuncOp func;
  const LossRegion &region;
  const StateTable &states;
  Operation *linear;
  LossOps ops;
  int64_t rows, start = 0, end = 0;
  Operation *firstChunk = nullptr; ///< the first op of the first chunk

  llvm::DenseMap<Value, Value> whole; ///< rows of what comes in
  llvm::DenseMap<std::pair<Value, Type>, Value> spreads;
  llvm::DenseMap<std::pair<Operation *, Type>, Value> totals;

  // Of the chunk that is being built.
  llvm::DenseMap<Value, Value> local; ///< the region's values
  llvm::DenseMap<Value, Value> own;   ///< rows of what comes in

  // What goes out.
  llvm::DenseMap<Value, SmallVector<Value>> pieces;
  llvm::DenseMap<Value, SmallVector<Value>> numbers;
  llvm::DenseMap<Value, Value> sums;
};

} // namespace

void fsdp::chunkLoss(func::FuncOp func, const LossRegion &region,
                     int64_t chunks, const StateTable &states) {
  Chunker(func, region, chunks, states).run();
}
