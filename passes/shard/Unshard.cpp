//===- Unshard.cpp - Erase the sharding, for reading ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Matchers.h"
#include "passes/Passes.h"
#include "passes/analysis/Entries.h"
#include "passes/analysis/Marks.h"
#include "passes/analysis/Outputs.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/TensorBuilders.h"
#include "passes/analysis/Transfers.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_UNSHARD
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// Whether a gathered tensor is kept for further micro-batches: it is a result
/// of the program.
bool isPadded(Value value) {
  bool isGathered =
      value.getDefiningOp<AllGatherOp>() ||
      isStart(getTransfer(value).getOperation(), Collective::AllGather);
  return isGathered && llvm::any_of(value.getUsers(), [](Operation *user) {
           return user->hasTrait<OpTrait::IsTerminator>();
         });
}

/// The value that a value stands for once collectives move nothing, or null.
Value seeThrough(Value value) {
  if (auto forwarding = value.getDefiningOp<ForwardingOpInterface>())
    return forwarding.getForwarded(cast<OpResult>(value));
  // The rows of a tensor that was gathered with its padding.
  Operation *op = value.getDefiningOp();
  if (aten::matchSlice(op) && isPadded(op->getOperand(0)))
    return op->getOperand(0);
  return {};
}

/// Rebuilds one program on whole tensors, backwards from its results: what only
/// the optimizer and the metrics need is never reached.
class Unsharder {
public:
  Unsharder(func::FuncOp func, const StateTable &states)
      : func(func), states(states), builder(func.getContext()) {}

  void run() {
    collectResults();
    auto whole = func.cloneWithoutRegions();
    if (getStepPart(func) != StepPart::Whole)
      setProgram(whole, getCaptured(func));
    Block *body = whole.addEntryBlock();
    // Arguments get their types below.
    body->eraseArguments(0, body->getNumArguments());
    SmallVector<DictionaryAttr> argumentAttrs;
    for (BlockArgument argument : func.getArguments()) {
      StateOp state = states.lookup(func, argument.getArgNumber());
      if (state && state.isFlat() && isParameter(state)) {
        for (StateOp member : states.getMembers(state)) {
          parts[argument].push_back(
              body->addArgument(member.getWholeType(), argument.getLoc()));
          argumentAttrs.push_back(bindTo(kStateAttr, member));
        }
        continue;
      }
      if (state && !isCaptured(state))
        continue;
      Type type = state ? Type(state.getWholeType()) : argument.getType();
      mapping.map(argument, body->addArgument(type, argument.getLoc()));
      argumentAttrs.push_back(func.getArgAttrDict(argument.getArgNumber()));
    }
    builder.setInsertionPointToEnd(body);
    markNeeded();
    for (Operation &op : func.getBody().front().without_terminator())
      rebuild(op);
    SmallVector<Value> values;
    SmallVector<DictionaryAttr> valueAttrs;
    for (auto [value, attributes] : llvm::zip_equal(results, resultAttrs)) {
      auto of = attributes.getAs<FlatSymbolRefAttr>(kGradientAttr);
      ArrayRef<StateOp> members = states.getMembers(states.lookup(of));
      if (members.empty()) {
        values.push_back(mapping.lookup(value));
        valueAttrs.push_back(attributes);
      }
      for (auto [i, member] : llvm::enumerate(members)) {
        values.push_back(parts.at(value)[i]);
        valueAttrs.push_back(bindTo(kGradientAttr, member));
      }
    }
    func::ReturnOp::create(builder, func.getLoc(), values);
    whole.setFunctionType(builder.getFunctionType(
        body->getArgumentTypes(), ValueRange(values).getTypes()));
    whole.setAllArgAttrs(argumentAttrs);
    whole.setAllResultAttrs(valueAttrs);
    whole->setAttr(kCapturedAttr, builder.getUnitAttr());
    func->getBlock()->getOperations().insert(func->getIterator(), whole);
    func.erase();
  }

  /// Optimizer states and scalars are not part of what is captured.
  static bool isCaptured(StateOp state) {
    if (state.isFlat())
      return false;
    return isParameter(state) || state.getRole() == Role::Buffer ||
           state.getRole() == Role::Constant ||
           state.getRole() == Role::Random ||
           state.getRole() == Role::LossScale;
  }

private:
  void addResult(Value value, DictionaryAttr attributes) {
    results.push_back(value);
    resultAttrs.push_back(attributes);
  }

  DictionaryAttr bindTo(StringRef attribute, StateOp state) {
    return builder.getDictionaryAttr(builder.getNamedAttr(
        attribute, FlatSymbolRefAttr::get(state.getSymNameAttr())));
  }

  void collectResults() {
    for (auto [i, value] : llvm::enumerate(
             func.getBody().front().getTerminator()->getOperands())) {
      auto output = func.getResultAttrOfType<StringAttr>(i, kOutputAttr);
      StateOp state = states.lookup(
          func.getResultAttrOfType<FlatSymbolRefAttr>(i, kStateAttr));
      if (state && state.getRole() == Role::Gradient) {
        addResult(value, builder.getDictionaryAttr(builder.getNamedAttr(
                             kGradientAttr, state.getOfAttr())));
        continue;
      }
      if (state && output) { // a running sum
        addResult(value, builder.getDictionaryAttr(
                             builder.getNamedAttr(kOutputAttr, output)));
        continue;
      }
      if (func.getResultAttr(i, kGradientAttr) ||
          (output && output.getValue() != kGradNormOutput) ||
          (state && (state.getRole() == Role::Buffer ||
                     state.getRole() == Role::Random)))
        addResult(value, func.getResultAttrDict(i));
    }
    for (Operation &op : func.getBody().front())
      if (auto update = dyn_cast<UpdateOp>(op))
        for (auto [param, grad] :
             llvm::zip(update.getParams(), update.getGrads()))
          addResult(
              grad,
              builder.getDictionaryAttr(builder.getNamedAttr(
                  kGradientAttr,
                  func.getArgAttr(getUpdatedArgument(param).getArgNumber(),
                                  kStateAttr))));
  }

  void markNeeded() {
    SmallVector<Value> worklist(results);
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      if (Value source = seeThrough(value)) {
        needed.insert(value.getDefiningOp());
        worklist.push_back(source);
      } else if (Operation *op = value.getDefiningOp();
                 op && needed.insert(op).second) {
        llvm::append_range(worklist, op->getOperands());
      }
    }
  }

  void rebuild(Operation &op) {
    if (!needed.contains(&op))
      return;
    if (rebuildFlat(op))
      return;
    if (op.getNumResults() != 0 && seeThrough(op.getResult(0))) {
      // Members that nothing needs were not rebuilt either.
      for (OpResult result : op.getResults())
        if (Value whole = mapping.lookupOrNull(seeThrough(result)))
          mapping.map(result, whole);
      return;
    }
    Operation *whole = builder.clone(op, mapping);
    if (op.hasAttr(kPlacedAttr)) {
      for (OpResult result : op.getResults())
        if (RankedTensorType type = getWholeResultType(result))
          whole->getResult(result.getResultNumber()).setType(type);
      [[maybe_unused]] LogicalResult done =
          whole->setPropertiesFromAttribute(getWholeProperty(&op), {});
      assert(succeeded(done) && "a dictionary, as it was captured");
      removeMarks(whole);
    } else {
      retypeReordered(whole);
    }
    // A cast of a shard is now one of the whole parameter.
    if (isShardSide(&op)) {
      auto from = cast<RankedTensorType>(whole->getOperand(0).getType());
      auto to = cast<RankedTensorType>(whole->getResult(0).getType());
      if (from.getShape() != to.getShape())
        whole->getResult(0).setType(
            RankedTensorType::get(from.getShape(), to.getElementType()));
    }
  }

  /// Around exchanges between ranks, parts were brought into their order in
  /// memory, and back.
  static void retypeReordered(Operation *op) {
    std::optional<SmallVector<int64_t>> order = aten::matchPermute(op);
    if (!order && !aten::isClone(op))
      return;
    auto from = cast<RankedTensorType>(op->getOperand(0).getType());
    auto to = cast<RankedTensorType>(op->getResult(0).getType());
    if (from.getNumElements() == to.getNumElements())
      return;
    op->getResult(0).setType(
        order ? getPermutedType(from, *order)
              : RankedTensorType::get(from.getShape(), to.getElementType()));
  }

  /// What makes, moves, casts or reads a tensor in the layout of a flat state
  /// does so with the members.
  bool rebuildFlat(Operation &op) {
    if (auto pack = dyn_cast<PackOp>(op); pack && pack.getOf()) {
      for (Value input : pack.getInputs())
        parts[pack.getResult()].push_back(mapping.lookup(input));
      return true;
    }
    bool found = false;
    for (OpResult result : op.getResults()) {
      Value source = seeThrough(result);
      auto it = parts.find(source                     ? source
                           : op.getNumOperands() == 1 ? op.getOperand(0)
                                                      : Value());
      if (it == parts.end())
        continue;
      found = true;
      SmallVector<Value> held = it->second;
      if (source)
        parts[result] = held;
      else if (isShardSide(&op))
        for (Value part : held)
          parts[result].push_back(castLike(op, part));
      else
        mapping.map(result, held[getMember(cast<UnpackOp>(op))]);
    }
    return found;
  }

  Value castLike(Operation &op, Value part) {
    IRMapping own;
    own.map(op.getOperand(0), part);
    Value result = builder.clone(op, own)->getResult(0);
    result.setType(RankedTensorType::get(
        cast<RankedTensorType>(part.getType()).getShape(),
        cast<RankedTensorType>(result.getType()).getElementType()));
    return result;
  }

  /// Which member is taken of a gathered flat state.
  size_t getMember(UnpackOp op) const {
    Value flat = op.getPacked();
    while (Value source = seeThrough(flat))
      flat = source;
    StateOp state = states.lookup(func, getShardSource(flat).getArgNumber());
    ArrayRef<StateOp> members = states.getMembers(state);
    return llvm::find_if(members,
                         [&](StateOp member) {
                           return member.getPart().getOffset() ==
                                  int64_t(op.getOffset());
                         }) -
           members.begin();
  }

  func::FuncOp func;
  const StateTable &states;
  OpBuilder builder;
  IRMapping mapping;
  llvm::DenseMap<Value, SmallVector<Value>> parts; ///< by flat tensor
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> resultAttrs;
  llvm::DenseSet<Operation *> needed;
};

struct Unshard final : fsdp::impl::UnshardBase<Unshard> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    // The first micro-batch's program is the whole step, but for the optimizer.
    for (func::FuncOp func : getPrograms(module))
      if (StepPart part = getStepPart(func);
          part == StepPart::Middle || part == StepPart::Last)
        func.erase();
    {
      StateTable states(module);
      for (func::FuncOp func : getPrograms(module))
        if (!func->hasAttr(kCapturedAttr))
          Unsharder(func, states).run();
    }
    for (StateOp state : llvm::make_early_inc_range(module.getOps<StateOp>())) {
      if (!Unsharder::isCaptured(state)) {
        state.erase();
        continue;
      }
      state.setType(state.getWholeType());
      state.removeSplitAttr();
      state.removePlacementAttr();
      state.removeBucketAttr();
      state.removeGroupAttr();
      state.setCopied(false);
      state.removeAtAttr();
      state.removeMemoryAttr();
    }
    module->removeAttr(kMeshAttr);
    module->removeAttr(kMicroBatchesAttr);
    removeCompileSettings(module);
    module->removeAttr(kMemoryAttr);
  }
};

} // namespace
