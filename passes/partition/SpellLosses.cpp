//===- SpellLosses.cpp - Cross-entropy of parts of a vocabulary -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Megatron's vocabulary-parallel cross-entropy (megatron/core/tensor_parallel,
// Shoeybi et al. 2019), written out: the largest score, the sum of exponentials
// and the score of the label are a number a token, and all that ranks exchange.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/analysis/ForwardSlice.h"
#include "passes/analysis/LossReduction.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/TensorOps.h"
#include "passes/partition/Cuts.h"
#include "passes/partition/PlanParallel.h"
#include "passes/partition/WholeOp.h"

#include "ir/aten/Matchers.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_SPELLLOSSES
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// A loss of scores of classes, and what makes its gradient.
struct CrossEntropy {
  Operation
      *logarithms; ///< `aten._log_softmax` of the scores, [tokens, classes]
  Operation *loss; ///< `aten.nll_loss_forward` of these
  Operation *lossBackward = nullptr; ///< null: nothing is trained
  Operation *logarithmsBackward = nullptr;
};

/// The only reader of `value` that is called so; null if there are several.
Operation *findReader(Value value, StringRef name) {
  Operation *found = nullptr;
  for (Operation *user : value.getUsers())
    if (getName(user) == name) {
      if (found && found != user)
        return nullptr;
      found = user;
    }
  return found;
}

bool hasReadersAlone(Value value, ArrayRef<Operation *> readers) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    return llvm::is_contained(readers, user);
  });
}

std::optional<CrossEntropy> match(Operation &op) {
  if (getName(&op) != "aten.nll_loss_forward")
    return std::nullopt;
  WholeOp loss = WholeOp::ofCaptured(&op);
  int64_t reduction = loss.getInt("reduction").value_or(MeanReduction);
  Operation *logarithms = op.getOperand(0).getDefiningOp();
  if ((reduction != MeanReduction && reduction != SumReduction) ||
      op.getNumOperands() != 2 || !logarithms ||
      getName(logarithms) != "aten._log_softmax")
    return std::nullopt;
  RankedTensorType type = getTensor(op.getOperand(0));
  WholeOp inner = WholeOp::ofCaptured(logarithms);
  if (type.getRank() != 2 || inner.getDim("dim", 2) != 1 ||
      !isa<FloatType>(type.getElementType()))
    return std::nullopt;
  CrossEntropy found{logarithms, &op};
  Value values = logarithms->getResult(0);
  found.lossBackward = findReader(values, "aten.nll_loss_backward");
  if (!found.lossBackward)
    return hasReadersAlone(values, {&op}) ? std::optional(found) : std::nullopt;
  Value gradient = found.lossBackward->getResult(0);
  found.logarithmsBackward =
      findReader(gradient, "aten._log_softmax_backward_data");
  // Gradient, scores, labels and the sum of weights.
  if (!found.logarithmsBackward || found.lossBackward->getNumOperands() != 4 ||
      found.lossBackward->getOperand(2) != op.getOperand(1) ||
      !hasReadersAlone(gradient, {found.logarithmsBackward}) ||
      !hasReadersAlone(values,
                       {&op, found.lossBackward, found.logarithmsBackward}))
    return std::nullopt;
  return found;
}

/// The parameter whose rows are the classes that the scores are of, if nothing
/// but the product with it and look-ups is what forward does with it; null if
/// there is none.
StateOp findClasses(const CrossEntropy &loss, func::FuncOp func,
                    const StateTable &states, const ForwardSlice &forward) {
  Value scores = loss.logarithms->getOperand(0);
  int64_t classes = getTensor(scores).getDimSize(1);
  while (Operation *op = scores.getDefiningOp()) {
    if (isProduct(op))
      break;
    bool passes = aten::isPlainCast(op) || getName(op) == "aten.view" ||
                  getName(op) == "aten._unsafe_view";
    if (!passes || getTensor(op->getOperand(0)).getShape().back() != classes)
      return {};
    scores = op->getOperand(0);
  }
  Operation *product = scores.getDefiningOp();
  if (!product)
    return {};
  // What is made of the matrix up to the product, by casts and transposes. Its
  // rows may be looked up as well.
  Value rows = product->getOperand(product->getNumOperands() - 1);
  Operation *reader = product;
  auto hasOther = [&] {
    return llvm::any_of(rows.getUsers(), [&](Operation *user) {
      return user != reader && forward.contains(user) &&
             getName(user) != "aten.embedding";
    });
  };
  while (Operation *op = rows.getDefiningOp()) {
    bool passes = getName(op) == "aten.t" ||
                  getName(op) == "aten.transpose.int" || aten::isPlainCast(op);
    if (!passes || hasOther())
      return {};
    reader = op;
    rows = op->getOperand(0);
  }
  if (hasOther())
    return {};
  auto argument = dyn_cast<BlockArgument>(rows);
  StateOp state =
      argument ? states.lookup(func, argument.getArgNumber()) : StateOp();
  return state && isParameter(state) && state.getGlobalType().getRank() == 2 &&
                 state.getGlobalType().getDimSize(0) == classes
             ? state
             : StateOp();
}

/// Writes one loss out for `ranks` ranks.
class Spelling {
public:
  Spelling(const CrossEntropy &loss, int64_t ranks)
      : loss(loss), ranks(ranks), ops(loss.logarithms),
        f32(Float32Type::get(loss.loss->getContext())),
        i1(IntegerType::get(loss.loss->getContext(), 1)) {}

  void run() {
    forward();
    if (loss.lossBackward)
      backward();
    for (Operation *op : {loss.logarithmsBackward, loss.lossBackward, loss.loss,
                          loss.logarithms})
      if (op)
        op->erase();
  }

private:
  RankedTensorType typeOf(ArrayRef<int64_t> shape, Type element) {
    return RankedTensorType::get(shape, element);
  }

  Value byElement(StringRef name, ArrayRef<aten::TensorArgument> operands,
                  ArrayRef<int64_t> shape, Type element,
                  ArrayRef<NamedAttribute> statics = {}) {
    return ops.make(name, operands, statics, typeOf(shape, element));
  }

  /// A number a token of all classes: the plan of who has which classes ends
  /// here.
  Value overClasses(StringRef name, Value value, bool keeps) {
    SmallVector<int64_t> shape{tokens};
    SmallVector<NamedAttribute> statics{ops.integers("dim", {1})};
    if (keeps) {
      shape.push_back(1);
      statics.push_back(
          ops.get().getNamedAttr("keepdim", ops.get().getBoolAttr(true)));
    }
    Value made = byElement(name, {value}, shape, f32, statics);
    made.getDefiningOp()->setAttr(kClassesAttr, ops.get().getUnitAttr());
    return made;
  }

  Value zero() {
    auto type = typeOf({}, f32);
    return ConstantOp::create(
        ops.get(), ops.getLoc(), type,
        DenseElementsAttr::get(type, FloatAttr::get(f32, 0)), nullptr);
  }

  void forward() {
    Value scores = loss.logarithms->getOperand(0),
          labels = loss.loss->getOperand(1);
    tokens = getTensor(scores).getDimSize(0);
    classes = getTensor(scores).getDimSize(1);
    SmallVector<int64_t> all{tokens, classes};
    scores = ops.cast(ops.copy(scores), f32);
    // The largest of each rank's classes, and of these.
    Value most = byElement("aten.amax",
                           {ops.view(scores, {tokens, ranks, classes / ranks})},
                           {tokens, ranks}, f32, ops.integers("dim", {2}));
    most = overClasses("aten.amax", most, true);
    Value centred = byElement("aten.sub.Tensor", {scores, most}, all, f32);
    exponentials = byElement("aten.exp", {centred}, all, f32);
    total = overClasses("aten.sum.dim_IntList", exponentials, true);
    Type i64 = getElementTypeOrSelf(labels.getType());
    Value numbers = ops.make(
        "aten.arange", {},
        {ops.get().getNamedAttr("end", ops.get().getI64IntegerAttr(classes))},
        typeOf({classes}, i64));
    isLabel = byElement("aten.eq.Tensor",
                        {ops.view(labels, {tokens, 1}), numbers}, all, i1);
    isLabel.getDefiningOp()->setAttr(kClassesAttr, ops.get().getUnitAttr());
    Value own = overClasses(
        "aten.sum.dim_IntList",
        byElement("aten.where.self", {isLabel, centred, zero()}, all, f32),
        false);
    counts = byElement("aten.ne.Scalar", {labels}, {tokens}, i1,
                       ops.integer("other", getIgnored()));
    Value logarithm =
        ops.view(byElement("aten.log", {total}, {tokens, 1}, f32), {tokens});
    Value each = byElement(
        "aten.where.self",
        {counts, byElement("aten.sub.Tensor", {logarithm, own}, {tokens}, f32),
         zero()},
        {tokens}, f32);
    Value sum =
        byElement("aten.sum", {ops.add(each, checkLabels(labels))}, {}, f32);
    number = byElement("aten.sum", {counts}, {}, f32, ops.type(f32));
    if (isMean())
      sum = ops.divide(sum, number);
    replace(loss.loss->getResult(0), sum);
    replace(loss.loss->getResult(1), number);
  }

  /// Zeros, a number a token: of scores that take no memory, by the kernel that
  /// this stands for, which refuses a label of no class. No rank would have it,
  /// and the loss would be another one.
  Value checkLabels(Value labels) {
    NamedAttrList statics(WholeOp::ofCaptured(loss.loss).property);
    statics.set("reduction", ops.get().getI64IntegerAttr(NoReduction));
    Operation *made =
        ops.remake(loss.loss, {ops.expand(zero(), {tokens, classes}), labels},
                   {typeOf({tokens}, f32), typeOf({}, f32)},
                   statics.getDictionary(loss.loss->getContext()));
    return made->getResult(0);
  }

  void backward() {
    ops.moveTo(loss.logarithmsBackward);
    Value upstream = ops.cast(loss.lossBackward->getOperand(0), f32);
    if (isMean())
      upstream = ops.divide(upstream, number);
    SmallVector<int64_t> all{tokens, classes};
    Value factor = ops.view(
        byElement("aten.where.self", {counts, upstream, zero()}, {tokens}, f32),
        {tokens, 1});
    Value shares =
        byElement("aten.div.Tensor", {exponentials, total}, all, f32);
    Value less = byElement("aten.add.Scalar", {shares}, all, f32,
                           ops.integer("other", -1));
    Value gradient =
        byElement("aten.where.self", {isLabel, less, shares}, all, f32);
    gradient = byElement("aten.mul.Tensor", {gradient, factor}, all, f32);
    replace(loss.logarithmsBackward->getResult(0), gradient);
  }

  void replace(OpResult old, Value value) {
    old.replaceAllUsesWith(
        ops.cast(value, getElementTypeOrSelf(old.getType())));
  }

  bool isMean() const {
    return WholeOp::ofCaptured(loss.loss)
               .getInt("reduction")
               .value_or(MeanReduction) == MeanReduction;
  }
  int64_t getIgnored() const {
    return WholeOp::ofCaptured(loss.loss).getInt("ignore_index").value_or(-100);
  }

  const CrossEntropy &loss;
  int64_t ranks, tokens = 0, classes = 0;
  TensorOps ops;
  Type f32, i1;
  // What backward reads of forward.
  Value exponentials, total, isLabel, counts, number;
};

struct SpellLosses final : fsdp::impl::SpellLossesBase<SpellLosses> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto told = getSetting<ParallelAttr>(module);
    if (told.getTp() == 1)
      return;
    StateTable states(module);
    for (func::FuncOp func : getPrograms(module)) {
      if (!func->hasAttr(kCapturedAttr))
        continue;
      ForwardSlice forward(func);
      SmallVector<CrossEntropy> losses;
      for (Operation &op : func.getBody().front())
        if (std::optional<CrossEntropy> loss = match(op))
          if (StateOp state = findClasses(*loss, func, states, forward);
              state && splitsClasses(state, told))
            losses.push_back(*loss);
      for (const CrossEntropy &loss : losses)
        Spelling(loss, told.getTp()).run();
    }
  }
};

} // namespace
