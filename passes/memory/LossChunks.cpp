//===- LossChunks.cpp - A loss in chunks of its rows ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/memory/LossChunks.h"

#include "ir/aten/Matchers.h"
#include "passes/analysis/LossWeight.h"
#include "passes/analysis/Views.h"
#include "passes/memory/LossInputs.h"
#include "passes/memory/LossSums.h"

using namespace mlir;
using namespace fsdp;

namespace {

using Kind = LossRegion::Kind;
using Space = LossRegion::Space;
using Use = LossRegion::Use;

class Chunker {
public:
  Chunker(func::FuncOp func, const LossRegion &region, const StateTable &states)
      : region(region), ops(region.getLinear()), inputs(region, ops),
        sums(func, states, ops) {}

  /// `rows`: of a chunk, at most.
  void run(int64_t rows) {
    inputs.prepare();
    for (int64_t start = 0; start < region.getCount(); start += rows) {
      inputs.beginChunk(start, std::min(start + rows, region.getCount()));
      local.clear();
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
  // A chunk
  //===--------------------------------------------------------------------===//

  /// `operand` as an op takes it whose result has `type` with `lead` dims of
  /// rows.
  Value take(Value operand, RankedTensorType type, unsigned lead, bool isAll) {
    return region.getUse(operand, type, lead) == Use::Local
               ? local.at(operand)
               : inputs.take(operand, type, lead, isAll);
  }

  RankedTensorType getChunkType(Value value) {
    RankedTensorType type = getTensor(value);
    ArrayRef<int64_t> columns =
        type.getShape().drop_front(region.getRows(value)->lead);
    return RankedTensorType::get(joinSizes({inputs.getCount()}, columns),
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
    SmallVector<Value> operands(op->getOperands());
    operands[operands.size() - 2] =
        inputs.getOwn(region.getInput(), 1, /*isAll=*/true);
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
    Operation *made = ops.remake(
        op, operands, types, arguments.getDictionary(ops.get().getContext()));
    for (auto [result, chunk] :
         llvm::zip_equal(op->getResults(), made->getResults()))
      set(result, chunk);
  }

  //===--------------------------------------------------------------------===//
  // Sums over all rows
  //===--------------------------------------------------------------------===//

  void buildWeightGradient(Operation *op) {
    Value a = op->getOperand(0), b = op->getOperand(1);
    Value left, right;
    if (const LossRegion::Rows *info = region.getRows(b)) {
      Value input = a.getDefiningOp()->getOperand(0);
      left = ops.transpose(inputs.getOwn(input, 1, info->space != Space::Kept));
      right = local.at(b);
    } else {
      info = region.getRows(region.getTransposed(a));
      left = local.at(a);
      right = inputs.getOwn(b, 1, info->space != Space::Kept);
    }
    sums.addProduct(op->getResult(0), left, right);
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
    Type element = isa<FloatType>(from) ? sums.getType(result)
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
    sums.add(result, ops.make(name, {chunk}, arguments,
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
    if (!known)
      known = inputs.buildAhead([&] { return makeTotal(forward, element); });
    return known;
  }

  Value makeTotal(Operation *forward, Type element) {
    LossOperands operands(forward);
    bool isAll = region.getRows(operands.scores)->space != Space::Kept;
    Value labels = inputs.getWhole(operands.target, 1, isAll);
    RankedTensorType type = getTensor(labels);
    RankedTensorType flags = type.clone(ops.get().getI1Type());
    NamedAttribute ignored =
        ops.integer("other", getInteger(forward, "ignore_index"));
    auto scalar = [](Type of) { return RankedTensorType::get({}, of); };
    if (!operands.weight) {
      Value counts = ops.make("aten.ne.Scalar", {labels}, ignored, flags);
      Value count =
          ops.make("aten.sum", {counts}, {}, scalar(ops.get().getI64Type()));
      // Where labels weigh the loss, one of none is 0, and so are gradients,
      // which chunks have before they are divided.
      if (findLossWeight(forward->getParentOfType<func::FuncOp>()))
        count = ops.make(
            "aten.clamp_min", {count},
            ops.get().getNamedAttr("min", ops.get().getI64IntegerAttr(1)),
            scalar(ops.get().getI64Type()));
      return ops.cast(count, element);
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
    return ops.make("aten.sum", {counted}, arguments, scalar(element));
  }

  Operation *makeLoss(Operation *op, int64_t reduction, Type loss) {
    LossOperands operands(op);
    bool isAll = region.getRows(operands.scores)->space != Space::Kept;
    return aten::buildAtenOp(
        ops.get(), ops.getLoc(), "aten.nll_loss_forward",
        {local.at(operands.scores), inputs.getOwn(operands.target, 1, isAll),
         operands.weight},
        {ops.integer("reduction", reduction),
         ops.integer("ignore_index", getInteger(op, "ignore_index"))},
        {loss, op->getResult(1).getType()});
  }

  void buildLoss(Operation *op) {
    Value result = op->getResult(0);
    Type element = getTensor(result).getElementType();
    auto f32 = ops.get().getF32Type();
    auto each = RankedTensorType::get({inputs.getCount()}, element);
    if (getInteger(op, "reduction") == NoReduction) {
      Operation *made = makeLoss(op, NoReduction, each);
      local[op->getResult(1)] = made->getResult(1);
      return set(result, made->getResult(0));
    }
    if (isHalf(element)) {
      // The sum of many rows is more than half types hold.
      Operation *made = makeLoss(op, NoReduction, each);
      sums.add(result, ops.make("aten.sum", {made->getResult(0)}, ops.type(f32),
                                RankedTensorType::get({}, f32)));
      local[op->getResult(1)] = made->getResult(1);
      return;
    }
    Operation *made = makeLoss(op, SumReduction, result.getType());
    local[op->getResult(1)] = made->getResult(1);
    sums.add(result, made->getResult(0));
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
                  inputs.getOwn(operands.target, 1, isAll), operands.weight,
                  total},
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

  void finishSum(Operation *op) {
    Value result = op->getResult(0);
    if (!region.isRead(result))
      return;
    Value sum = sums.get(result);
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
      Value sum = sums.get(result);
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

  const LossRegion &region;
  TensorOps ops;
  LossInputs inputs;
  LossSums sums;
  llvm::DenseMap<std::pair<Operation *, Type>, Value> totals;
  llvm::DenseMap<Value, Value> local; ///< the region's values in the chunk
  llvm::DenseMap<Value, SmallVector<Value>> pieces; ///< rows that go out
};

} // namespace

void fsdp::chunkLoss(func::FuncOp func, const LossRegion &region,
                     int64_t chunks, const StateTable &states) {
  Chunker(func, region, states).run((region.getCount() + chunks - 1) / chunks);
}
