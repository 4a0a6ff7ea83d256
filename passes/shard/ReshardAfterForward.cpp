//===- ReshardAfterForward.cpp - Gather again for backward ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Decisions.h"
#include "passes/analysis/ForwardSlice.h"
#include "passes/analysis/Mesh.h"
#include "passes/analysis/NamePatterns.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/Resharding.h"
#include "passes/analysis/SecondLife.h"
#include "passes/analysis/States.h"
#include "passes/analysis/Transfers.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_RESHARDAFTERFORWARD
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// Gathers a tensor once more for its second life.
class Regatherer {
public:
  /// With `inner` a part of the gathered tensor is kept for it, over these
  /// ranks; null: it is gathered from the shards once more.
  Regatherer(AllGatherOp gather, GroupAttr inner)
      : gather(gather), inner(inner) {}

  Value operator()(OpBuilder &builder, Operation *lastRead) {
    Value shard = inner ? keepPart(lastRead) : gather.getShard();
    auto replay =
        ReplayOp::create(builder, gather.getLoc(), shard.getType(), shard);
    return AllGatherOp::create(builder, gather.getLoc(),
                               gather.getFull().getType(), replay.getResult(),
                               gather.getDim(),
                               inner ? inner : gather.getGroup(), PartsAttr())
        .getFull();
  }

private:
  /// Cuts the part off behind the last read in forward.
  Value keepPart(Operation *lastRead) {
    OpBuilder builder(gather.getContext());
    builder.setInsertionPointAfter(lastRead);
    auto full = cast<RankedTensorType>(gather.getFull().getType());
    return ShardOp::create(builder, gather.getLoc(),
                           getShardType(full, gather.getDim(), inner),
                           gather.getFull(), gather.getDim(), inner,
                           PartsAttr())
        .getShard();
  }

  AllGatherOp gather;
  GroupAttr inner;
};

struct ReshardAfterForward final
    : fsdp::impl::ReshardAfterForwardBase<ReshardAfterForward> {
  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(ModuleOp module) {
    auto told = getSetting<BucketsAttr>(module);
    explain(module, told);
    SmallVector<RuleAttr> rules = getList<RuleAttr>(told.getRules());
    llvm::erase_if(rules, [](RuleAttr rule) { return !rule.getReshard(); });
    if (told.getReshard() == ReshardMode::None && rules.empty())
      return success();
    auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
    GroupAttr group = mesh ? mesh.getGroup(kShardAxis) : GroupAttr();
    int64_t shardSize = group ? group.getSize() : 1;
    if (failed(verifyRanks(module, told.getReshardRanks(), shardSize)))
      return failure();
    for (RuleAttr rule : rules)
      if (failed(verifyRanks(module, *rule.getReshard(), shardSize)))
        return failure();
    StateTable states(module);
    for (StateOp state : states.getStates())
      if (isParameter(state) && state.getBucket()) {
        int64_t ranks = getReshardRanks(told, *state.getBucket());
        ranksByBucket[*state.getBucket()] = ranks == 0 ? shardSize : ranks;
      }
    llvm::StringSet<> buckets = getBucketNames(module);
    for (RuleAttr rule : rules)
      if (failed(verifyMatches(module, rule, buckets, "buckets")))
        return failure();
    for (func::FuncOp func : getPrograms(module))
      if (failed(run(func, states)))
        return failure();
    return success();
  }

  /// `ranks`: 0 for all.
  static LogicalResult verifyRanks(ModuleOp module, int64_t ranks,
                                   int64_t shardSize) {
    if (ranks == 0 || shardSize % ranks == 0)
      return success();
    return module.emitError("expected to shard over a number of ranks that "
                            "divides the ")
           << shardSize
           << " of the shard group between forward and backward, found "
           << ranks;
  }

  /// What becomes of each bucket behind forward, at the line that reads it
  /// first.
  static void explain(ModuleOp module, BucketsAttr told) {
    if (!wantsRemarks(module))
      return;
    StateTable states(module);
    for (func::FuncOp func : getPrograms(module)) {
      if (isInference(func))
        continue;
      llvm::StringSet<> seen;
      for (auto gather : func.getOps<AllGatherOp>()) {
        if (isOfStep(gather))
          continue;
        BlockArgument source = getShardSource(gather.getShard());
        StateOp state =
            source ? states.lookup(func, source.getArgNumber()) : StateOp();
        if (state && state.getBucket() && !gather.getFull().use_empty() &&
            seen.insert(*state.getBucket()).second)
          explain(func, gather, *state.getBucket(), told);
      }
    }
  }

  static void explain(func::FuncOp func, AllGatherOp gather, StringRef bucket,
                      BucketsAttr told) {
    Operation *reader = *gather.getFull().user_begin();
    for (Operation *user : gather.getFull().getUsers())
      if (user->isBeforeInBlock(reader))
        reader = user;
    int64_t ranks = getReshardRanks(told, bucket);
    bool hasRule =
        llvm::any_of(getList<RuleAttr>(told.getRules()), [&](RuleAttr rule) {
          return rule.getReshard() && matchesAny(rule.getBuckets(), bucket);
        });
    std::string why =
        hasRule ? "an override names it"
        : told.getReshard() == ReshardMode::AllButRoot && ranks == 1
            ? "the root's parameters are needed again at once, by default"
        : told.getReshard() == ReshardMode::AllButRoot
            ? "the default of reshard_after_forward: all but the root"
            : "reshard_after_forward says so";
    if (ranks == 1)
      remark::missed(reader->getLoc(),
                     nameDecision("reshard", "StaysGathered", func))
          << "bucket '" + bucket.str() +
                 "' stays gathered from forward to backward"
          << remark::reason("{0}", why);
    else
      remark::passed(reader->getLoc(),
                     nameDecision("reshard", "GatheredAgain", func))
          << "bucket '" + bucket.str() +
                 "' is freed behind forward and gathered again for backward, "
                 "from " +
                 (ranks == 0 ? std::string("all ranks")
                             : std::to_string(ranks) + " ranks")
          << remark::reason("{0}", why);
  }

  LogicalResult run(func::FuncOp func, const StateTable &states) {
    Operation *last = ForwardSlice(func).getLast();
    if (!last)
      return success();
    llvm::DenseMap<Operation *, unsigned> positions;
    SmallVector<AllGatherOp> gathers;
    for (auto [i, op] : llvm::enumerate(func.getBody().front())) {
      positions[&op] = i;
      if (auto gather = dyn_cast<AllGatherOp>(op); gather && !isOfStep(gather))
        gathers.push_back(gather);
    }
    for (AllGatherOp gather : gathers) {
      BlockArgument source = getShardSource(gather.getShard());
      StateOp state =
          source ? states.lookup(func, source.getArgNumber()) : StateOp();
      if (!state || !state.getBucket())
        return gather.emitOpError("expects to gather a parameter that has a "
                                  "bucket; run fsdp-assign-buckets first");
      int64_t size = ranksByBucket.lookup(*state.getBucket());
      if (size > 1)
        giveSecondLife(gather.getFull(), positions, positions.at(last),
                       Regatherer(gather, getInner(gather.getGroup(), size)));
    }
    return success();
  }

  /// Adjacent ranks of `group`; null if these are all.
  static GroupAttr getInner(GroupAttr group, int64_t size) {
    if (size == group.getSize())
      return {};
    MLIRContext *context = group.getContext();
    return GroupAttr::get(
        context, StringAttr::get(context, "inner_" + llvm::Twine(size)), size,
        group.getStride());
  }

  llvm::StringMap<int64_t> ranksByBucket;
};

} // namespace
