//===- VerifySharded.cpp - The contract of a sharded program -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Matchers.h"
#include "passes/Passes.h"
#include "passes/analysis/Encodings.h"
#include "passes/analysis/Entries.h"
#include "passes/analysis/GradientChains.h"
#include "passes/analysis/Memories.h"
#include "passes/analysis/Mesh.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/Transfers.h"
#include "passes/verify/ShardVerifier.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Format.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_VERIFYSHARDED
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

class ShardingVerifier {
public:
  /// By sum: over how many groups what it sums was reduced. All programs agree.
  using SumGroups = llvm::DenseMap<Operation *, size_t>;

  ShardingVerifier(func::FuncOp func, const StateTable &states, MeshAttr mesh,
                   SumGroups &sumGroups)
      : func(func), states(states), mesh(mesh), part(getStepPart(func)),
        sumGroups(sumGroups), shards(func, states, mesh) {}

  LogicalResult verify() {
    if (failed(verifyMemories(func)))
      return failure();
    for (Operation &op : func.getBody().front())
      if (failed(verifyStage(op)) || failed(shards.verifyParallel(op)) ||
          failed(collectReduction(op)) || failed(shards.verifyPadding(op)))
        return failure();
    if (isInference(func))
      return verifyNoUpdates();
    if (failed(verifyReductions()) || failed(verifySums()))
      return failure();
    return verifyUpdates();
  }

private:
  static LogicalResult verifyStage(Operation &op) {
    if (isa<StartOpInterface>(op) || isa<WaitOp, FreeOp, ZeroPaddingOp>(op))
      return op.emitOpError("belongs to a later stage; expected logical "
                            "collectives only");
    return success();
  }

  /// The reductions that a parameter's gradient goes through.
  struct Chain {
    SmallVector<GroupAttr, 2> groups;
    Operation *last = nullptr;
    double scale = 1; ///< of what all ranks bring alike
    AccumulateOp sum;
  };

  LogicalResult addReduction(ReductionOpInterface op) {
    StringRef of = op.getGradientOf(0).getValue();
    StateOp state = states.lookup(op.getGradientOf(0));
    if (!state || state.getRole() != Role::Parameter)
      return op->emitOpError("reduces a gradient of '")
             << of << "', which is no trained parameter";
    Chain &chain = chains[state];
    Value reduced = getReduced(op->getOperand(0), op->getResult(0).getType());
    if (!reduced)
      return op->emitOpError("expects an operand that was cast from ")
             << getElementTypeOrSelf(op->getResult(0).getType())
             << " for its way, found " << op->getOperand(0);
    if (auto encode = op->getOperand(0).getDefiningOp<EncodeOp>();
        encode && failed(verifyWireScale(op, encode)))
      return failure();
    if (chain.last && !comesFrom(reduced, chain.last)) {
      InFlightDiagnostic diagnostic =
          op->emitOpError("reduces the gradient of '")
          << of << "' a second time";
      diagnostic.attachNote(chain.last->getLoc()) << "first reduction here";
      return diagnostic;
    }
    if (Type found = getElementTypeOrSelf(reduced.getType());
        op.getGroup().getSize() > 1 && found != state.getReduceType())
      return op->emitOpError("expects the gradient of '")
             << of << "' to be reduced in " << state.getReduceType()
             << ", found " << found
             << "; run fsdp-move-casts-to-shards behind "
                "fsdp-shard-parameters";
    chain.last = op;
    // One rank alone divides by what the user asks for.
    if (op.getGroup().getSize() > 1)
      chain.groups.push_back(op.getGroup());
    chain.scale *= op.getScale();
    return success();
  }

  /// What travels in eight bits has one scale on all ranks that are summed, of
  /// the greatest value of all, and whoever reads the sums divides by it.
  static LogicalResult verifyWireScale(ReductionOpInterface op,
                                       EncodeOp encode) {
    AllReduceOp maximum = getMaximum(encode);
    auto amax = maximum ? maximum.getInput().getDefiningOp<AmaxOp>() : AmaxOp();
    if (!amax || amax.getDim() || amax.getInput() != encode.getInput() ||
        maximum.getGroup() != op.getGroup())
      return op->emitOpError(
                 "expects what travels to be scaled by the greatest "
                 "value of all ranks of '")
             << op.getGroup().getName().getValue() << "'";
    for (Operation *reader : op->getUsers())
      if (auto decode = dyn_cast<DecodeOp>(reader);
          !decode || decode.getScale() != encode.getScale())
        return reader->emitOpError(
            "reads sums that are still multiplied by the "
            "scale with which they travelled");
    return success();
  }

  LogicalResult collectReduction(Operation &op) {
    if (ReductionOpInterface reduction = asGradientReduction(&op))
      return addReduction(reduction);
    if (auto sum = dyn_cast<AccumulateOp>(op))
      return addSum(sum);
    return success();
  }

  /// A gradient is added to the running sum of its parameter, once.
  LogicalResult addSum(AccumulateOp op) {
    if (part == StepPart::Whole || (part == StepPart::First && !op.getTree()))
      return op.emitOpError("adds to a running sum in a program that has none "
                            "to add to");
    int64_t expected = part == StepPart::Last && !op.getTree()
                           ? getMicroBatches(func->getParentOfType<ModuleOp>())
                           : 1;
    if (int64_t found = op.getDivisor().value_or(1); found != expected)
      return op.emitOpError("expects to divide by ")
             << expected << ", found " << found
             << "; the last of a step's micro-batches makes the mean of all";
    auto into = dyn_cast<BlockArgument>(op.getInto());
    StateOp sum = into ? states.lookup(func, into.getArgNumber()) : StateOp();
    if (!op.getOf()) {
      if (sum && sum.getRole() == Role::Scalar)
        return success();
      return op.emitOpError("expects to add to a state of role 'scalar', or to "
                            "say of which parameter it adds the gradient");
    }
    StateOp param = states.lookup(op.getOfAttr());
    if (!param || !sum || sum.getRole() != Role::Gradient ||
        sum.getOfAttr() != op.getOfAttr())
      return op.emitOpError("expects to add a gradient of '")
             << *op.getOf() << "' to a state of role 'gradient' of it";
    Chain &chain = chains[param];
    if (chain.sum) {
      InFlightDiagnostic diagnostic = op.emitOpError("adds a gradient of '")
                                      << *op.getOf() << "' a second time";
      diagnostic.attachNote(chain.sum.getLoc()) << "added here";
      return diagnostic;
    }
    if (chain.last && !comesFrom(op.getGradient(), chain.last))
      return op.emitOpError("adds something else than the reduced gradient of "
                            "'")
             << *op.getOf() << "'";
    if (failed(agree(sum, chain.groups.size(), op.getLoc())))
      return failure();
    chain.sum = op;
    chain.last = op;
    return success();
  }

  /// Casts may stand between a reduction and what follows it.
  static bool comesFrom(Value value, Operation *op) {
    while (Operation *source = value.getDefiningOp()) {
      if (source == op)
        return true;
      if (!isShardSide(source) && !isa<DecodeOp>(source))
        return false;
      value = source->getOperand(0);
    }
    return false;
  }

  LogicalResult agree(StateOp sum, size_t reductions, Location loc) {
    auto [it, isNew] = sumGroups.try_emplace(sum, reductions);
    if (isNew || it->second == reductions)
      return success();
    return emitError(loc) << "sums in '" << sum.getSymName()
                          << "' what went through " << reductions
                          << " reductions, where other programs sum what went "
                             "through "
                          << it->second;
  }

  /// Each gradient of a micro-batch is left in, or added to, its running sum.
  LogicalResult verifySums() {
    if (part == StepPart::Whole)
      return success();
    llvm::DenseMap<Operation *, Value> sums; // by parameter
    Operation *terminator = func.getBody().front().getTerminator();
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      StateOp state = states.lookup(
          func.getResultAttrOfType<FlatSymbolRefAttr>(i, kStateAttr));
      if (state && state.getRole() == Role::Gradient) {
        StateOp param = states.lookup(state.getOfAttr());
        sums[param] = value;
        if (part == StepPart::First &&
            failed(agree(state, chains.lookup(param).groups.size(),
                         value.getLoc())))
          return failure();
      }
    }
    for (auto [op, argument] : params) {
      auto param = cast<StateOp>(op);
      Chain chain = chains.lookup(param);
      Value sum = sums.lookup(param);
      if (part != StepPart::First && !chain.sum)
        return param.emitOpError("expects its gradient to be added to those of "
                                 "other micro-batches in '")
               << func.getSymName() << "'";
      bool isLeft = part == StepPart::Last     ? !sum
                    : part == StepPart::Middle ? sum == chain.sum.getResult()
                    : !chain.last ? bool(sum)
                                  : sum && comesFrom(sum, chain.last);
      if (!isLeft)
        return param.emitOpError("expects the sum of its gradients to be left "
                                 "in its state by all but the last program, "
                                 "found otherwise in '")
               << func.getSymName() << "'";
    }
    return success();
  }

  int64_t getGrains() const {
    return getSetting<StepAttr>(func->getParentOfType<ModuleOp>()).getGrains();
  }

  LogicalResult verifyReductions() {
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      StateOp state = states.lookup(func, i);
      if (!state || state.getRole() != Role::Parameter)
        continue;
      params[state] = func.getArgument(i);
      SmallVector<GroupAttr, 2> expected = getExpectedGroups(state);
      ArrayRef<GroupAttr> found = chains[state].groups;
      // The rest of the exchange may wait for the last micro-batch.
      bool isWhole = endsStep(func) || found.size() >= expected.size();
      if (found ==
          (isWhole ? ArrayRef<GroupAttr>(expected)
                   : ArrayRef<GroupAttr>(expected).take_front(found.size()))) {
        // With grains one rank alone, too, reduces in the last program only.
        bool divides = endsStep(func) || getGrains() == 0;
        if (isWhole && divides && failed(verifyScale(state, chains[state])))
          return failure();
        continue;
      }
      InFlightDiagnostic diagnostic =
          state.emitOpError("expects its gradient to be reduced over ");
      print(diagnostic, expected);
      diagnostic << ", found ";
      print(diagnostic, found);
      return diagnostic;
    }
    return success();
  }

  /// A shard over its own group, then over the replicas; what is whole over all
  /// ranks that read different data at once.
  SmallVector<GroupAttr, 2> getExpectedGroups(StateOp state) const {
    SmallVector<GroupAttr, 2> groups;
    if (state.isLocal())
      return groups;
    GroupAttr rest = getDataGroup(mesh);
    if (ShardingAttr sharding = state.getSharding()) {
      groups.push_back(sharding.getGroup());
      rest = mesh.getGroup(kReplicateAxis);
    }
    if (rest && rest.getSize() > 1)
      groups.push_back(rest);
    return groups;
  }

  static void print(InFlightDiagnostic &diagnostic,
                    ArrayRef<GroupAttr> groups) {
    if (groups.empty())
      diagnostic << "no ranks";
    llvm::interleave(
        groups,
        [&](GroupAttr group) {
          diagnostic << group.getSize() << " ranks of '"
                     << group.getName().getValue() << "'";
        },
        [&] { diagnostic << " and "; });
  }

  static std::string printNumber(double number) {
    std::string text;
    llvm::raw_string_ostream(text) << llvm::format("%g", number);
    return text;
  }

  /// A gradient is the mean over ranks, or what the user divides by instead,
  /// but for what the optimizer divides by.
  LogicalResult verifyScale(StateOp state, const Chain &chain) const {
    auto module = state->getParentOfType<ModuleOp>();
    auto left = module->getAttrOfType<FloatAttr>(kOptimizerDivisorAttr);
    if (state.isLocal()) {
      if (left)
        return state.emitOpError("is each rank's own, so the optimizer must "
                                 "not divide its gradient by ")
               << printNumber(left.getValueAsDouble());
      return success();
    }
    auto factor = module->getAttrOfType<FloatAttr>(kDivideFactorAttr);
    int64_t ranks = 1;
    for (GroupAttr group : chain.groups)
      ranks *= group.getSize();
    // Those along 'cp' have summands of one gradient.
    double batches =
        double(ranks) / double(getSetting<ParallelAttr>(module).getCp());
    int64_t grains = getGrains();
    double expected = factor   ? factor.getValueAsDouble()
                      : grains ? double(grains)
                               : batches;
    if (left)
      expected /= left.getValueAsDouble();
    double found = double(ranks) / chain.scale;
    if (std::abs(found - expected) <= 1e-9 * expected)
      return success();
    InFlightDiagnostic diagnostic =
        state.emitOpError("expects the sum of its gradient over ranks to be "
                          "divided by ")
        << printNumber(expected) << ", found " << printNumber(found);
    if (chain.last)
      diagnostic.attachNote(chain.last->getLoc()) << "the last reduction";
    return diagnostic;
  }

  LogicalResult verifyNoUpdates() {
    if (!chains.empty())
      return chains.begin()->second.last->emitOpError(
          "reduces a gradient in a program for inference");
    for (Operation &op : func.getBody().front())
      if (isa<UpdateOp>(op))
        return op.emitOpError("updates parameters in a program for inference");
    return success();
  }

  /// Each parameter is updated once, with its reduced gradient, and the result
  /// is its new value.
  LogicalResult verifyUpdates() {
    llvm::DenseMap<Value, Operation *> updates;
    for (Operation &op : func.getBody().front()) {
      auto update = dyn_cast<UpdateOp>(op);
      if (!update)
        continue;
      if (!endsStep(func))
        return op.emitOpError("updates parameters before the last micro-batch");
      if (failed(verifyDivisor(update)))
        return failure();
      for (auto [param, grad, result] : llvm::zip(
               update.getParams(), update.getGrads(), update.getNewParams())) {
        Value updated = getUpdatedArgument(param);
        if (auto [it, isNew] =
                updates.try_emplace(updated ? updated : param, &op);
            !isNew) {
          InFlightDiagnostic diagnostic =
              op.emitOpError("updates a parameter a second time");
          diagnostic.attachNote(it->second->getLoc()) << "first update here";
          return diagnostic;
        }
        if (failed(verifyUpdate(&op, param, grad, result)))
          return failure();
      }
    }
    // Before the optimizer is inserted, gradients are results.
    for (auto [state, param] : params)
      if (!updates.empty() && !updates.contains(param))
        return cast<StateOp>(state).emitOpError(
            "expects to be updated by an optimizer");
    return success();
  }

  /// It divides by what the reductions leave to it.
  static LogicalResult verifyDivisor(UpdateOp op) {
    auto left = op->getParentOfType<ModuleOp>()->getAttrOfType<FloatAttr>(
        kOptimizerDivisorAttr);
    if (!left || op.getGradScale())
      return success();
    return op->emitOpError("expects a grad_scale, since reductions leave a "
                           "division by ")
           << printNumber(left.getValueAsDouble()) << " to it";
  }

  LogicalResult verifyUpdate(Operation *op, Value param, Value grad,
                             Value result) {
    BlockArgument argument = getUpdatedArgument(param);
    StateOp state =
        argument ? states.lookup(func, argument.getArgNumber()) : StateOp();
    if (!state || state.getRole() != Role::Parameter)
      return op->emitOpError("updates what is no trained parameter");
    Operation *last = chains.lookup(state).last;
    if (last && !comesFrom(grad, last))
      return op->emitOpError("updates '")
             << state.getSymName()
             << "' with something else than its reduced gradient";
    auto bound = FlatSymbolRefAttr::get(state.getSymNameAttr());
    SmallVector<Value> values{result};
    for (Operation *user : result.getUsers())
      if (auto copy = dyn_cast<CopyOp>(user))
        values.push_back(copy.getResult());
    for (Value value : values)
      for (OpOperand &use : value.getUses())
        if (isa<func::ReturnOp>(use.getOwner()) &&
            func.getResultAttr(use.getOperandNumber(), kStateAttr) == bound)
          return success();
    return op->emitOpError("computes a new '")
           << state.getSymName() << "' that is not returned as its value";
  }

  func::FuncOp func;
  const StateTable &states;
  MeshAttr mesh;
  StepPart part;
  SumGroups &sumGroups;
  llvm::DenseMap<Operation *, Chain> chains;
  llvm::MapVector<Operation *, Value> params;
  ShardVerifier shards;
};

struct VerifySharded final : fsdp::impl::VerifyShardedBase<VerifySharded> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<MeshAttr> mesh = getDataMesh(module);
    if (failed(mesh))
      return signalPassFailure();
    StateTable states(module);
    if (failed(verifySplits(states, *mesh)))
      return signalPassFailure();
    ShardingVerifier::SumGroups sumGroups;
    for (func::FuncOp func : getPrograms(module))
      if (failed(ShardingVerifier(func, states, *mesh, sumGroups).verify()))
        return signalPassFailure();
  }

private:
  /// What is split is so over the axis of the mesh, and so is what is kept of
  /// it.
  static LogicalResult verifySplits(const StateTable &states, MeshAttr mesh) {
    for (StateOp each : states.getStates()) {
      StateOp state = each;
      std::optional<SplitAttr> split = state.getSplit();
      if (split && split->getGroup() != mesh.getGroup(kTensorAxis))
        return state.emitOpError("expects to be split over 'tp' of the mesh ")
               << mesh << ", found " << split->getGroup();
      if (state.getRole() != Role::Optimizer &&
          state.getRole() != Role::Gradient)
        continue;
      StateOp param = states.lookup(state.getOfAttr());
      // Scales of blocks that ranks share are whole on each.
      if (param &&
          param.getGlobalType().getShape() != state.getGlobalType().getShape())
        continue;
      if (param && param.getSplit() != split)
        return state.emitOpError("expects to be split as '")
               << param.getSymName() << "' is, of which it is kept";
    }
    return success();
  }
};

} // namespace
