//===- ShardParameters.cpp - Each rank holds its rows --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Mesh.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "support/Pattern.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_SHARDPARAMETERS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct ShardParameters final
    : fsdp::impl::ShardParametersBase<ShardParameters> {
  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(ModuleOp module) {
    told = getSetting<ShardsAttr>(module);
    hasGrains = getSetting<StepAttr>(module).getGrains() != 0;
    auto parallel = getSetting<ParallelAttr>(module);
    tensorRanks = parallel.getTp();
    contextRanks = parallel.getCp();
    FailureOr<MeshAttr> mesh = buildMesh(module);
    if (failed(mesh) || failed(assignSharding(module, *mesh)))
      return failure();
    StateTable states(module);
    for (func::FuncOp func : getPrograms(module)) {
      if (!func->hasAttr(kCapturedAttr))
        continue;
      func->removeAttr(kCapturedAttr);
      if (failed(shardArguments(func, states)) ||
          failed(reduceGradients(func, states)))
        return failure();
    }
    module->setAttr(kMeshAttr, *mesh);
    return success();
  }

  FailureOr<MeshAttr> buildMesh(ModuleOp module) {
    if (module->hasAttr(kMeshAttr))
      return module.emitError("is sharded already: it carries '")
             << kMeshAttr << "'";
    if (told.getWorld() % (told.getReplicate() * tensorRanks * contextRanks) !=
        0)
      return module.emitError("expected numbers of replicas, of tensor and of "
                              "context parallel ranks whose product divides "
                              "the ")
             << told.getWorld() << " ranks, found " << told.getReplicate()
             << ", " << tensorRanks << " and " << contextRanks;
    SmallVector<StringAttr> names;
    SmallVector<int64_t> sizes;
    if (told.getReplicate() > 1) {
      names.push_back(StringAttr::get(&getContext(), kReplicateAxis));
      sizes.push_back(told.getReplicate());
    }
    names.push_back(StringAttr::get(&getContext(), kShardAxis));
    sizes.push_back(told.getWorld() / told.getReplicate() / tensorRanks);
    if (tensorRanks > 1) {
      names.push_back(StringAttr::get(&getContext(), kTensorAxis));
      sizes.push_back(tensorRanks);
    }
    auto mesh = MeshAttr::get(&getContext(), names, sizes);
    shardGroup = mesh.getGroup(kShardAxis);
    replicateGroup = mesh.getGroup(kReplicateAxis);
    dataGroup = getDataGroup(mesh);
    return mesh;
  }

  static bool matches(StateOp state, StringRef pattern) {
    return llvm::any_of(state.getAllNames(), [&](StringRef name) {
      return matchesPattern(pattern.str(), name.str());
    });
  }

  /// What has no rows, or shall not be cut, is whole on every rank.
  LogicalResult assignSharding(ModuleOp module, MeshAttr mesh) {
    SmallVector<StringRef> ignore = getTexts(told.getIgnore());
    SmallVector<DimRuleAttr> dims = getList<DimRuleAttr>(told.getDims());
    llvm::StringSet<> unmatched;
    unmatched.insert_range(ignore);
    for (DimRuleAttr rule : dims)
      unmatched.insert_range(getTexts(rule.getParams()));
    for (StateOp state : module.getOps<StateOp>()) {
      if (!isParameter(state))
        continue;
      bool isIgnored = false;
      for (StringRef pattern : ignore)
        if (matches(state, pattern)) {
          unmatched.erase(pattern);
          isIgnored = true;
        }
      FailureOr<int64_t> dim = chooseDim(state, dims, unmatched);
      if (failed(dim))
        return failure();
      if (state.getQuantized() && *dim != 0)
        return state.emitOpError("expects to be cut along dim 0, in blocks of "
                                 "codes, found dim ")
               << *dim << " by a rule of shard_dims";
      if (isIgnored)
        state.setLocal(told.getKeepIgnoredLocal() && dataGroup.getSize() > 1 &&
                       state.getRole() == Role::Parameter);
      else if (getShardSize(mesh) > 1 && state.getGlobalType().getRank() != 0)
        state.setPlacementAttr(
            ShardingAttr::get(&getContext(), *dim, shardGroup));
    }
    for (const auto &pattern : unmatched)
      return module.emitError("expected parameters whose names match '")
             << pattern.getKey() << "', found none";
    return success();
  }

  /// The dim that a parameter is cut along, by the last rule that matches it.
  static FailureOr<int64_t> chooseDim(StateOp state, ArrayRef<DimRuleAttr> dims,
                                      llvm::StringSet<> &unmatched) {
    ArrayRef<int64_t> shape = state.getGlobalType().getShape();
    int64_t dim = 0;
    for (DimRuleAttr rule : dims)
      for (StringRef pattern : getTexts(rule.getParams())) {
        if (!matches(state, pattern))
          continue;
        unmatched.erase(pattern);
        dim = rule.getDim().value_or(
            std::distance(shape.begin(), llvm::max_element(shape)));
        if (!shape.empty() && dim >= int64_t(shape.size()))
          return state.emitOpError("expects a dim below its ")
                 << shape.size() << " to shard, found " << dim << " by '"
                 << pattern << "'";
      }
    return dim;
  }

  /// Puts a gather in front of the first op that reads a parameter.
  LogicalResult shardArguments(func::FuncOp func, const StateTable &states) {
    llvm::DenseMap<Operation *, unsigned> positions;
    for (auto [i, op] : llvm::enumerate(func.getBody().front()))
      positions[&op] = i;
    for (BlockArgument argument : func.getArguments()) {
      StateOp state = states.lookup(func, argument.getArgNumber());
      if (!state || !state.getSharding())
        continue;
      auto full = cast<RankedTensorType>(argument.getType());
      if (full.getEncoding())
        return state.emitOpError(
            "expects a parameter that is contiguous, found strides; call "
            "contiguous() on it before the export");
      argument.setType(state.getLocalType());
      if (argument.use_empty())
        continue;
      Operation *first = *llvm::min_element(
          argument.getUsers(), [&](Operation *a, Operation *b) {
            return positions.at(a) < positions.at(b);
          });
      OpBuilder builder(first);
      auto gather = AllGatherOp::create(builder, argument.getLoc(), full,
                                        argument, state.getSharding().getDim(),
                                        shardGroup, PartsAttr());
      argument.replaceAllUsesExcept(gather.getFull(), gather);
    }
    setTypes(func);
    return success();
  }

  /// Puts a reduction behind each gradient.
  LogicalResult reduceGradients(func::FuncOp func, const StateTable &states) {
    Operation *terminator = func.getBody().front().getTerminator();
    for (OpOperand &operand : terminator->getOpOperands()) {
      auto of = func.getResultAttrOfType<FlatSymbolRefAttr>(
          operand.getOperandNumber(), kGradientAttr);
      if (!of)
        continue;
      StateOp state = states.lookup(of);
      if (!state)
        return func.emitError("has a gradient of '")
               << of.getValue() << "', which is no state of the module";
      operand.set(reduce(operand.get(), state, terminator));
    }
    setTypes(func);
    return success();
  }

  /// Within the shard group each rank gets its rows of the mean; across
  /// replicas only these rows travel. What is whole is averaged whole. Ranks
  /// along 'tp' have computed complete gradients together; those along 'cp'
  /// have summands, by whose number means are not divided (DivideGradients).
  Value reduce(Value gradient, StateOp state, Operation *terminator) {
    OpBuilder builder(terminator);
    if (Operation *op = gradient.getDefiningOp())
      builder.setInsertionPointAfter(op);
    auto of = FlatSymbolRefAttr::get(state.getSymNameAttr());
    GroupAttr across = dataGroup;
    if (ShardingAttr sharding = state.getSharding()) {
      gradient = ReduceScatterOp::create(
          builder, gradient.getLoc(), state.getLocalType(), gradient,
          Reduction::Avg, sharding.getDim(), sharding.getGroup(), of);
      across = replicateGroup;
    }
    // One rank alone reduces, too: what is between sum and optimizer must be as
    // on several.
    bool isAlone = !across || across.getSize() == 1;
    if (state.isLocal() || (isAlone && (state.getSharding() || !hasGrains)))
      return gradient;
    return AllReduceOp::create(builder, gradient.getLoc(), gradient.getType(),
                               gradient, Reduction::Avg, across, of);
  }

  static void setTypes(func::FuncOp func) {
    Block &body = func.getBody().front();
    func.setFunctionType(
        FunctionType::get(func.getContext(), body.getArgumentTypes(),
                          body.getTerminator()->getOperandTypes()));
  }

  GroupAttr shardGroup, replicateGroup, dataGroup;
  int64_t tensorRanks = 1, contextRanks = 1;
  bool hasGrains = false;
  ShardsAttr told;
};

} // namespace
