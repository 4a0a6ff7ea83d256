//===- SplitUpdates.cpp - Updates as operators of kernels -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/SplitUpdates.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/Memories.h"
#include "passes/analysis/Views.h"
#include "passes/kernels/Program.h"
#include "passes/kernels/Updates.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fsdp;

/// Of an update with rates, the number of the one that it was a part of.
static constexpr StringLiteral kPartAttr = "fsdp.part_of";

/// Smaller ones are updated together: a kernel of each would take longer to
/// start than to run.
static constexpr int64_t kLeastElements = 1024;

/// Whether kernels read `value`, or views of it, beside `except`.
static bool isReadByKernels(Value value, Operation *except) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (user == except)
      return false;
    return isView(user) ? isKernelView(user) &&
                              isReadByKernels(user->getResult(0), except)
                        : isKernelOp(user);
  });
}

/// Whether a kernel may do more for `gradient` than to update by it.
static bool isWorthSplitting(Value gradient, Operation *update) {
  Value source = gradient;
  while (auto result = dyn_cast<OpResult>(source)) {
    Value viewed = getViewSource(result);
    if (!viewed)
      break;
    if (!isKernelView(result.getOwner()))
      return false;
    source = viewed;
  }
  Operation *maker = source.getDefiningOp();
  return (maker && isKernelOp(maker)) || isReadByKernels(source, update);
}

/// An update in front of `op`, and as it is, of other tensors.
static UpdateOp buildLike(UpdateOp op, ValueRange params, ValueRange grads,
                          ValueRange moments, ValueRange rates) {
  OpBuilder builder(op);
  return UpdateOp::create(
      builder, op.getLoc(), params.getTypes(), moments.getTypes(), TypeRange(),
      op.getKindAttr(), params, grads, moments, /*scales=*/ValueRange(),
      /*maxima=*/Value(), op.getStep(), op.getLr(), op.getGradScale(),
      op.getFoundInf(), rates, op.getNumbers(), op.getRoundingAttr());
}

namespace {

class Splitter {
public:
  explicit Splitter(func::FuncOp program)
      : program(program), memories(program) {}

  bool run();

private:
  static bool canSplit(UpdateOp op, unsigned param);
  ValueRange getRates(UpdateOp op);
  void split(UpdateOp op);
  static UpdateOp take(UpdateOp op, ArrayRef<unsigned> params,
                       ValueRange rates);

  using Key = std::tuple<OptimizerKindAttr, DictionaryAttr, Value, Value>;

  func::FuncOp program;
  Memories memories;
  llvm::MapVector<Key, SmallVector<Value>> rates;
  int64_t parts = 0;
};

} // namespace

bool Splitter::canSplit(UpdateOp op, unsigned param) {
  auto isF32 = [](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    return type.getElementType().isF32() && aten::isContiguous(type);
  };
  return cast<RankedTensorType>(op.getParams()[param].getType())
                 .getNumElements() >= kLeastElements &&
         llvm::all_of(getOperandsOf(op, param), isF32) &&
         (isWorthSplitting(op.getGrads()[param], op) ||
          isReadByKernels(op.getNewParams()[param], op));
}

ValueRange Splitter::getRates(UpdateOp op) {
  auto [it, isNew] = rates.try_emplace(
      {op.getKindAttr(), op.getNumbers(), op.getStep(), op.getLr()});
  if (!isNew)
    return it->second;
  // In front of all that may read them, as is the number of the step.
  Operation *place = &program.getBody().front().front();
  if (Operation *maker =
          op.getStep() ? op.getStep().getDefiningOp() : nullptr) {
    if (llvm::all_of(maker->getOperands(), llvm::IsaPred<BlockArgument>) &&
        maker != place)
      maker->moveBefore(place);
    place = maker->getNextNode();
  }
  TensorOps ops(place);
  ops.setLoc(op.getLoc());
  it->second = buildRates(op, ops);
  return it->second;
}

/// An update in front of `op`, of some of its parameters.
UpdateOp Splitter::take(UpdateOp op, ArrayRef<unsigned> params,
                        ValueRange rates) {
  SmallVector<Value> all, grads, moments;
  for (unsigned param : params) {
    all.push_back(op.getParams()[param]);
    grads.push_back(op.getGrads()[param]);
  }
  size_t count = op.getParams().size();
  for (size_t first = 0; first < op.getMoments().size(); first += count)
    for (unsigned param : params)
      moments.push_back(op.getMoments()[first + param]);
  UpdateOp made = buildLike(op, all, grads, moments, rates);
  for (auto [i, param] : llvm::enumerate(params)) {
    op.getNewParams()[param].replaceAllUsesWith(made.getNewParams()[i]);
    for (size_t kind = 0; kind * count < op.getMoments().size(); ++kind)
      op.getNewMoments()[kind * count + param].replaceAllUsesWith(
          made.getNewMoments()[kind * params.size() + i]);
  }
  return made;
}

void Splitter::split(UpdateOp op) {
  SmallVector<unsigned> alone, others;
  for (unsigned i = 0; i < op.getParams().size(); ++i)
    (canSplit(op, i) ? alone : others).push_back(i);
  if (alone.empty())
    return;
  Builder builder(op.getContext());
  for (unsigned param : alone)
    take(op, param, getRates(op))
        ->setAttr(kPartAttr, builder.getI64IntegerAttr(parts));
  if (!others.empty())
    take(op, others, {});
  ++parts;
  op.erase();
}

bool Splitter::run() {
  SmallVector<UpdateOp> updates;
  for (auto op : program.getBody().front().getOps<UpdateOp>())
    if (op.getScales().empty() && !op.getRounding() && !memories.isHostOp(op) &&
        canBeOfKernel(op))
      updates.push_back(op);
  for (UpdateOp op : updates)
    split(op);
  return parts > 0;
}

bool fsdp::splitUpdates(func::FuncOp program) {
  return Splitter(program).run();
}

/// One of all `parts`, where the last of them stands.
static void join(MutableArrayRef<UpdateOp> parts) {
  SmallVector<Value> params, grads, moments;
  UpdateOp last = parts.back();
  size_t kinds = last.getMoments().size();
  for (UpdateOp part : parts) {
    params.push_back(part.getParams().front());
    grads.push_back(part.getGrads().front());
  }
  for (size_t kind = 0; kind < kinds; ++kind)
    for (UpdateOp part : parts)
      moments.push_back(part.getMoments()[kind]);
  UpdateOp made = buildLike(last, params, grads, moments, {});
  for (auto [i, part] : llvm::enumerate(parts)) {
    part.getNewParams().front().replaceAllUsesWith(made.getNewParams()[i]);
    for (size_t kind = 0; kind < kinds; ++kind)
      part.getNewMoments()[kind].replaceAllUsesWith(
          made.getNewMoments()[kind * parts.size() + i]);
  }
  for (UpdateOp part : parts)
    part.erase();
}

/// What nobody reads any more of what `value` was computed from.
static void eraseUnread(Value value) {
  Operation *maker = value.getDefiningOp();
  if (!maker || !maker->use_empty() || !aten::lookupSchema(maker))
    return;
  SmallVector<Value> operands(maker->getOperands());
  maker->erase();
  for (Value operand : operands)
    eraseUnread(operand);
}

void fsdp::joinUpdates(func::FuncOp program) {
  llvm::MapVector<Attribute, SmallVector<UpdateOp>> parts;
  for (auto op : program.getBody().front().getOps<UpdateOp>())
    if (Attribute part = op->getAttr(kPartAttr))
      parts[part].push_back(op);
  llvm::SetVector<Value> rates;
  for (auto &[number, each] : parts) {
    rates.insert_range(each.front().getRates());
    join(each);
  }
  for (Value rate : rates)
    eraseUnread(rate);
  program.walk([](UpdateOp op) { op->removeAttr(kPartAttr); });
}
