//===- Recompute.cpp - Compute activations again for backward -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/ForwardSlice.h"
#include "passes/analysis/ModulePaths.h"
#include "passes/analysis/NamePatterns.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/SourcePlace.h"
#include "passes/analysis/States.h"
#include "passes/analysis/Transfers.h"
#include "passes/analysis/Views.h"
#include "passes/memory/BlockRemarks.h"
#include "passes/memory/CheckpointedModules.h"
#include "support/Pattern.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_RECOMPUTE
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// What a selective block keeps by default: products of matrices and
/// attention, whose computation costs most for what they return, as
/// torchtitan's list (torchtitan, distributed/activation_checkpoint.py).
constexpr llvm::StringLiteral kSaved[] = {
    "aten.mm",
    "aten.addmm",
    "aten.bmm",
    "aten.baddbmm",
    "aten._scaled_mm",
    "aten._grouped_mm",
    "aten.convolution",
    "aten._scaled_dot_product_*attention*",
    "aten._flash_attention_forward",
    "aten._efficient_attention_forward"};

/// Whether `op` computes a value that a second computation would repeat. What
/// ranks of a step gather is larger than what each has, so that is gathered
/// again; sums are exchanged once.
bool isComputation(Operation *op) {
  if (isa<AllGatherOp>(op))
    return isOfStep(op);
  // So are blocks of codes: what they stand for is there for each reader.
  return !isa<CollectiveOpInterface, ForwardingOpInterface, ConstantOp,
              DequantizeOp>(op) &&
         op->getNumResults() != 0;
}

/// Whether `value` is a parameter, a constant, or one of these in another type
/// or layout: it is there in backward in any case.
bool isOfParameter(Value value, func::FuncOp func, const StateTable &states) {
  while (auto result = dyn_cast<OpResult>(value)) {
    Operation *op = result.getOwner();
    if (isOfStep(op))
      return false;
    if (isa<AllGatherOp, ConstantOp, DequantizeOp>(op))
      return true;
    Value source = getViewSource(result);
    if (!source && isShardSide(op))
      source = op->getOperand(0);
    if (!source)
      return false;
    value = source;
  }
  StateOp state =
      states.lookup(func, cast<BlockArgument>(value).getArgNumber());
  return state && isParameter(state);
}

/// The forward ops of one block, in their order.
class Recomputation {
public:
  /// `ops` by number are those of the program; forward ends with number
  /// `border`.
  Recomputation(func::FuncOp func, const StateTable &states,
                const llvm::DenseMap<Operation *, unsigned> &positions,
                unsigned border, ArrayRef<Operation *> block)
      : func(func), states(states), positions(positions), border(border),
        block(block.begin(), block.end()) {}

  /// `isSaved` says whose results are kept beside the inputs.
  void run(llvm::function_ref<bool(Operation *)> isSaved) {
    keepBoundary();
    for (Operation *op : block)
      if (isSaved(op))
        kept.insert_range(op->getResults());
    findReads();
    if (reads.empty())
      return;
    Operation *first = reads.front()->getOwner();
    for (OpOperand *read : reads)
      if (positions.at(read->getOwner()) < positions.at(first))
        first = read->getOwner();
    OpBuilder builder(first);
    for (Operation *op : block)
      if (needed.contains(op))
        clone(op, builder);
    for (OpOperand *read : reads)
      read->set(again.lookup(read->get()));
    eraseDead();
  }

private:
  bool isBackward(Operation *op) const {
    return !op->hasTrait<OpTrait::IsTerminator>() && positions.at(op) > border;
  }

  /// What the rest of forward reads, or the program returns, is there anyway,
  /// and so is all of the storage that it is a view of.
  void keepBoundary() {
    for (Operation *op : block)
      for (OpResult result : op->getResults()) {
        bool leaves = llvm::any_of(result.getUsers(), [&](Operation *user) {
          return !isBackward(user) && !block.contains(user);
        });
        if (!leaves)
          continue;
        Value value = result;
        kept.insert(value);
        while (auto inner = dyn_cast<OpResult>(value)) {
          Value source = getViewSource(inner);
          if (!source)
            break;
          value = source;
        }
        kept.insert(value);
      }
  }

  void findReads() {
    for (Operation *op : block)
      for (OpResult result : op->getResults())
        if (!kept.contains(result))
          for (OpOperand &use : result.getUses())
            if (isBackward(use.getOwner())) {
              reads.push_back(&use);
              need(op);
            }
  }

  void need(Operation *op) {
    SmallVector<Operation *> worklist{op};
    while (!worklist.empty()) {
      Operation *next = worklist.pop_back_val();
      if (!needed.insert(next).second)
        continue;
      for (Value operand : next->getOperands())
        if (Operation *source = operand.getDefiningOp();
            source && block.contains(source) && !kept.contains(operand))
          worklist.push_back(source);
    }
  }

  void clone(Operation *op, OpBuilder &builder) {
    for (Value operand : op->getOperands()) {
      if (again.contains(operand) || isOfParameter(operand, func, states) ||
          !isa<RankedTensorType>(operand.getType()))
        continue;
      // A second life, so that nothing merges what is computed from it with
      // the first.
      again.map(operand, ReplayOp::create(builder, op->getLoc(),
                                          operand.getType(), operand)
                             .getResult());
    }
    builder.clone(*op, again);
    if (auto gather = dyn_cast<AllGatherOp>(op))
      replaceOther(gather, builder.getInsertionPoint());
    // What is kept anyway is read as it is.
    for (OpResult result : op->getResults())
      if (kept.contains(result))
        again.erase(result);
  }

  /// Backward itself may gather the same once more: once for both is enough, if
  /// that is behind `place`, where `gather` was made again.
  void replaceOther(AllGatherOp gather, Block::iterator place) {
    for (Operation *replay : gather.getShard().getUsers())
      if (isa<ReplayOp>(replay))
        for (Operation *user : replay->getUsers())
          if (auto other = dyn_cast<AllGatherOp>(user);
              other && other->getAttrs() == gather->getAttrs() &&
              other->getPropertiesAsAttribute() ==
                  gather->getPropertiesAsAttribute() &&
              other.getFull().getType() == gather.getFull().getType() &&
              positions.contains(other) && positions.contains(&*place) &&
              positions.at(&*place) <= positions.at(other)) {
            other.getFull().replaceAllUsesWith(
                again.lookup(Value(gather.getFull())));
            others.push_back(other);
          }
  }

  /// Forward need not compute what it alone kept for backward.
  void eraseDead() {
    for (AllGatherOp other : others) {
      Operation *replay = other.getShard().getDefiningOp();
      other->erase();
      if (replay->use_empty())
        replay->erase();
    }
    for (Operation *op : llvm::reverse(block))
      if (isOpTriviallyDead(op))
        op->erase();
  }

  func::FuncOp func;
  const StateTable &states;
  const llvm::DenseMap<Operation *, unsigned> &positions;
  unsigned border;
  llvm::SetVector<Operation *> block;
  llvm::DenseSet<Value> kept;
  llvm::DenseSet<Operation *> needed;
  SmallVector<OpOperand *> reads;
  SmallVector<AllGatherOp> others; ///< that others than these read now
  IRMapping again;
};

struct Recompute final : fsdp::impl::RecomputeBase<Recompute> {
  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

private:
  /// Patterns of operators, and whether one of the blocks matched.
  using SavedOperators = SmallVector<std::pair<std::string, bool>>;

  LogicalResult run(ModuleOp module) {
    SmallVector<RecomputeAttr> rules = getRecomputeRules(module);
    FailureOr<SmallVector<CheckpointedModule>> blocks =
        getCheckpointedModules(module);
    if (failed(blocks))
      return failure();
    if (blocks->empty()) {
      if (!rules.empty())
        module.emitWarning(
            "there are no blocks to compute again for backward: the model "
            "repeats none, so all activations are kept; name modules, such as "
            "activation_checkpointing: {modules: \"encoder.*\"}");
      for (func::FuncOp func : getPrograms(module))
        if (!isInference(func))
          BlockRemarks(module, func, {}).emit();
      return success();
    }
    saved.assign(std::max<size_t>(1, rules.size()), {});
    for (auto [rule, list] : llvm::zip(rules, saved)) {
      if (rule.getPolicy() != RecomputePolicy::Selective)
        continue;
      for (StringRef pattern : getTexts(rule.getSave()))
        list.push_back({pattern.str(), false});
      if (list.empty())
        for (StringRef pattern : kSaved)
          list.push_back({pattern.str(), true});
    }
    StateTable states(module);
    for (func::FuncOp func : getPrograms(module))
      if (!isInference(func)) {
        BlockRemarks remarks(module, func, *blocks);
        recompute(func, states, *blocks);
        remarks.emit();
      }
    for (const SavedOperators &list : saved)
      for (const auto &[pattern, isUsed] : list)
        if (!isUsed)
          return module.emitError("expected operators of the blocks to save "
                                  "that match '")
                 << pattern << "', found none"
                 << suggestNames(pattern, names());
    return success();
  }

  void recompute(func::FuncOp func, const StateTable &states,
                 ArrayRef<CheckpointedModule> modules) {
    Operation *last = ForwardSlice(func).getLast();
    if (!last)
      return;
    llvm::DenseMap<Operation *, unsigned> positions;
    for (auto [i, op] : llvm::enumerate(func.getBody().front()))
      positions[&op] = i;
    unsigned border = positions.at(last);
    llvm::StringMap<SmallVector<Operation *>> blocks;
    for (const CheckpointedModule &each : modules)
      blocks[each.path];
    for (Operation &op : func.getBody().front()) {
      if (positions.at(&op) > border)
        break;
      StringRef module = SourcePlace(op.getLoc()).module;
      if (module.empty() || !isComputation(&op))
        continue;
      if (std::optional<StringRef> path = findAround(
              module, [&](StringRef at) { return blocks.contains(at); })) {
        blocks[*path].push_back(&op);
        operators.insert(op.getName().getStringRef());
      }
    }
    for (const CheckpointedModule &each : modules)
      Recomputation(func, states, positions, border, blocks[each.path])
          .run([&](Operation *op) { return isSaved(op, saved[each.rule]); });
  }

  static bool isSaved(Operation *op, SavedOperators &list) {
    bool is = false;
    for (auto &[pattern, isUsed] : list)
      if (matchesPattern(pattern, op->getName().getStringRef().str()))
        is = isUsed = true;
    return is;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all(operators.begin(), operators.end());
    llvm::sort(all);
    return all;
  }

  std::vector<SavedOperators> saved;    ///< by rule
  llvm::SetVector<StringRef> operators; ///< of all blocks
};

} // namespace
