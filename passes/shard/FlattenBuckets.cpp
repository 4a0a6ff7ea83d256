//===- FlattenBuckets.cpp - One state in the place of a bucket's ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Mesh.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/Targets.h"
#include "passes/analysis/TensorBuilders.h"
#include "passes/shard/FlatMembers.h"
#include "passes/shard/MomentStorage.h"
#include "support/BlockCodes.h"
#include "support/Pattern.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <map>

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_FLATTENBUCKETS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// What share of a flat state may be gathered in vain: one over this.
constexpr int64_t kVainShare = 8;

/// Members of one flat state and where they lie in it.
struct FlatBucket {
  SmallVector<StateOp> members;
  SmallVector<int64_t> offsets;
  StateOp flat;
};

/// Replaces the members by the flat state in one program.
class Flattener {
public:
  Flattener(func::FuncOp func, const FlatBucket &bucket,
            const ProgramUses &uses)
      : func(func), bucket(bucket), uses(uses), builder(func.getContext()),
        flat(bucket.flat) {}

  void run() {
    SmallVector<unsigned> dead;
    for (StateOp member : bucket.members)
      if (const ParameterUse *use = uses.lookup(member))
        dead.push_back(use->argument.getArgNumber());
    if (dead.empty())
      return;
    argument = addStateArguments(func, {flat}).front();
    gather();
    reduce();
    eraseArguments();
  }

private:
  /// The gathers of all members that become one, with their numbers.
  using Together = SmallVector<std::pair<size_t, AllGatherOp>>;

  void gather() {
    // The first gather of one kind by each member, the second, and so on.
    llvm::MapVector<std::pair<StringRef, unsigned>, Together> all;
    llvm::DenseMap<Operation *, const GatherUse *> source;
    for (auto [i, member] : llvm::enumerate(bucket.members)) {
      const ParameterUse *use = uses.lookup(member);
      if (!use)
        continue;
      llvm::StringMap<unsigned> counts;
      for (const GatherUse &each : use->gathers) {
        all[{each.lifeKey, counts[each.lifeKey]++}].push_back({i, each.gather});
        source[each.gather] = &each;
      }
    }
    // In the order of the program, so that casts which several gathers read
    // are made in front of the first.
    auto sorted = all.takeVector();
    auto first = [&](const Together &together) {
      return llvm::min_element(together,
                               [&](const auto &a, const auto &b) {
                                 return uses.getPosition(a.second) <
                                        uses.getPosition(b.second);
                               })
          ->second;
    };
    llvm::stable_sort(sorted, [&](const auto &a, const auto &b) {
      return uses.getPosition(first(a.second)) <
             uses.getPosition(first(b.second));
    });
    for (auto &[key, together] : sorted) {
      AllGatherOp place = first(together);
      builder.setInsertionPoint(place);
      Operation *cut = findCut(together, source, place);
      Value shard = rebuild(*source.at(place), key.second, cut);
      auto type = RankedTensorType::get(flat.getGlobalType().getShape(),
                                        typeOf(shard).getElementType());
      Value full = AllGatherOp::create(builder, place.getLoc(), type, shard, 0,
                                       place.getGroup(), PartsAttr());
      for (auto &[i, old] : together) {
        gathered[old] = full;
        old.getFull().replaceAllUsesWith(
            UnpackOp::create(builder, old.getLoc(), old.getFull().getType(),
                             full, bucket.offsets[i]));
      }
    }
    for (auto &[key, together] : sorted)
      for (auto &[i, old] : together)
        eraseChain(old);
  }

  /// The last of the members' parts that `place` gathers again: until there
  /// the whole flat tensor is needed. Null if it gathers no parts.
  Operation *
  findCut(const Together &together,
          const llvm::DenseMap<Operation *, const GatherUse *> &source,
          Operation *place) const {
    Operation *last = nullptr;
    for (const auto &[i, gather] : together)
      for (Operation *op : source.at(gather)->chain)
        if (isa<ShardOp>(op) && uses.getPosition(op) < uses.getPosition(place))
          if (!last || uses.getPosition(last) < uses.getPosition(op))
            last = op;
    return last;
  }

  /// What stands between the flat state and its gather, as between a member and
  /// its own; a part is kept from `cut` on. A second life is each gather's own;
  /// all else is shared.
  Value rebuild(const GatherUse &use, unsigned ordinal, Operation *cut) {
    Value value = argument;
    std::string key;
    for (Operation *op : use.chain) {
      key += describeOp(op);
      if (isa<AllGatherOp>(op)) {
        value = gathered.at(op);
        continue;
      }
      if (isa<ReplayOp>(op))
        key += "#" + std::to_string(ordinal);
      Value &known = rebuilt[key];
      if (!known) {
        OpBuilder::InsertionGuard guard(builder);
        if (isa<ShardOp>(op))
          builder.setInsertionPointAfter(cut);
        known = cloneFor(op, value);
      }
      value = known;
    }
    return value;
  }

  /// What `member` does to its operand, done to the flat state's.
  Value cloneFor(Operation *member, Value operand) {
    RankedTensorType type = typeOf(operand);
    if (auto scatter = dyn_cast<ReduceScatterOp>(member))
      type = getShardType(type, 0, scatter.getGroup());
    else if (auto shard = dyn_cast<ShardOp>(member))
      type = getShardType(type, 0, shard.getGroup());
    IRMapping mapping;
    mapping.map(member->getOperand(0), operand);
    Value result = builder.clone(*member, mapping)->getResult(0);
    result.setType(RankedTensorType::get(
        type.getShape(), typeOf(member->getResult(0)).getElementType()));
    return result;
  }

  void reduce() {
    SmallVector<Value> inputs;
    Operation *last = nullptr;
    const GradientUse *model = nullptr;
    SmallVector<unsigned> results;
    for (StateOp member : bucket.members) {
      const ParameterUse *use = uses.lookup(member);
      if (!use || !use->gradient)
        return;
      model = &*use->gradient;
      ReduceScatterOp scatter = model->scatter;
      inputs.push_back(scatter.getFull());
      results.push_back(model->result);
      if (!last || uses.getPosition(last) < uses.getPosition(scatter))
        last = scatter;
    }
    builder.setInsertionPoint(last);
    auto of = FlatSymbolRefAttr::get(flat.getSymNameAttr());
    ArrayRef<int64_t> shape = flat.getGlobalType().getShape();
    Type element = typeOf(inputs.front()).getElementType();
    Value value = PackOp::create(builder, last->getLoc(),
                                 RankedTensorType::get(shape, element), inputs,
                                 bucket.offsets, of);
    SmallVector<Operation *> chain{ReduceScatterOp(model->scatter)};
    llvm::append_range(chain, model->tail);
    for (Operation *old : chain) {
      value = cloneFor(old, value);
      if (auto scatter = value.getDefiningOp<ReduceScatterOp>())
        scatter.setOfAttr(of);
      else if (auto reduce = value.getDefiningOp<AllReduceOp>())
        reduce.setOfAttr(of);
    }
    setResults(results, value, of);
    for (StateOp member : bucket.members)
      eraseReduction(*uses.lookup(member)->gradient);
  }

  /// One gradient in place of the members'.
  void setResults(ArrayRef<unsigned> replaced, Value gradient,
                  FlatSymbolRefAttr of) {
    Operation *terminator = func.getBody().front().getTerminator();
    SmallVector<Value> values;
    SmallVector<DictionaryAttr> attributes;
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      bool isFirst = i == *llvm::min_element(replaced);
      if (!isFirst && llvm::is_contained(replaced, i))
        continue;
      values.push_back(isFirst ? gradient : value);
      attributes.push_back(isFirst
                               ? builder.getDictionaryAttr(
                                     builder.getNamedAttr(kGradientAttr, of))
                               : func.getResultAttrDict(i));
    }
    terminator->setOperands(values);
    func.setFunctionType(builder.getFunctionType(
        func.getArgumentTypes(), ValueRange(values).getTypes()));
    func.setAllResultAttrs(attributes);
  }

  static void eraseReduction(const GradientUse &use) {
    for (Operation *op : llvm::reverse(use.tail))
      op->erase();
    ReduceScatterOp scatter = use.scatter;
    scatter.erase();
  }

  /// A gather that nothing reads any more, and what only it read.
  static void eraseChain(AllGatherOp gather) {
    Operation *op = gather;
    while (op && op->use_empty()) {
      Operation *before = op->getOperand(0).getDefiningOp();
      op->erase();
      op = before;
    }
  }

  void eraseArguments() {
    BitVector dead(func.getNumArguments());
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      auto state = func.getArgAttrOfType<FlatSymbolRefAttr>(i, kStateAttr);
      if (llvm::any_of(bucket.members, [&](StateOp member) {
            return state && member.getSymNameAttr() == state.getAttr();
          }))
        dead.set(i);
    }
    (void)func.eraseArguments(dead);
  }

  func::FuncOp func;
  const FlatBucket &bucket;
  const ProgramUses &uses;
  OpBuilder builder;
  StateOp flat;
  BlockArgument argument;
  llvm::StringMap<Value> rebuilt;
  llvm::DenseMap<Operation *, Value> gathered; ///< in place of the members'
};

struct FlattenBuckets final : fsdp::impl::FlattenBucketsBase<FlattenBuckets> {
  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(ModuleOp module) {
    auto told = getSetting<BucketsAttr>(module);
    layout = told.getLayout();
    stateDType = getSetting<OptimizerAttr>(module).getStateDtype();
    for (RuleAttr rule : getList<RuleAttr>(told.getRules()))
      if (rule.getLayout())
        for (StringRef pattern : getTexts(rule.getBuckets()))
          rules.push_back({pattern, *rule.getLayout()});
    FailureOr<MeshAttr> mesh = getDataMesh(module);
    if (failed(mesh))
      return failure();
    if (layout == BucketLayout::Rows && rules.empty())
      return success();
    SmallVector<func::FuncOp> programs = getPrograms(module);
    std::vector<ProgramUses> uses;
    {
      StateTable states(module);
      for (func::FuncOp func : programs)
        uses.emplace_back(func, states);
    }
    SmallVector<FlatBucket> buckets;
    if (failed(choose(module, uses, buckets)))
      return failure();
    for (FlatBucket &bucket : buckets) {
      declare(bucket, uses);
      for (auto [func, use] : llvm::zip_equal(programs, uses))
        Flattener(func, bucket, use).run();
      for (auto [member, offset] :
           llvm::zip_equal(bucket.members, bucket.offsets)) {
        member.setPlacementAttr(PartAttr::get(
            &getContext(), FlatSymbolRefAttr::get(bucket.flat.getSymNameAttr()),
            offset));
      }
      // Results have moved.
      for (auto [func, use] : llvm::zip_equal(programs, uses))
        use.renumberResults(func);
    }
    return success();
  }

  /// What is asked for a bucket; the last rule that matches counts.
  BucketLayout getLayout(StringRef bucket) {
    BucketLayout chosen = layout;
    for (Rule &rule : rules)
      if (matchesPattern(rule.pattern.str(), bucket.str())) {
        rule.isUsed = true;
        chosen = rule.layout;
      }
    return chosen;
  }

  LogicalResult choose(ModuleOp module, ArrayRef<ProgramUses> uses,
                       SmallVectorImpl<FlatBucket> &buckets) {
    // By all that one transfer, one cast and one update must have in common.
    llvm::MapVector<StringRef, FlatBucket> byKey;
    llvm::StringMap<bool> keys;
    for (StateOp state : module.getOps<StateOp>()) {
      if (!isParameter(state) || !state.getBucket() || state.getPart())
        continue;
      BucketLayout asked = getLayout(*state.getBucket());
      // What has no rows, or shall not be cut, is whole in every layout.
      if (asked == BucketLayout::Rows || !state.getSharding())
        continue;
      if (asked == BucketLayout::Fsdp2) {
        if (failed(mark(state)))
          return failure();
        continue;
      }
      std::string key, reason;
      if (state.getQuantized()) {
        if (asked == BucketLayout::Auto)
          continue;
        return state.emitOpError("cannot be in a flat bucket: it is held in "
                                 "blocks of codes; write bucket_layout: auto, "
                                 "or rows for '")
               << *state.getBucket() << "'";
      }
      if (!describe(state, uses, asked == BucketLayout::Auto, key, reason)) {
        if (asked == BucketLayout::Auto)
          continue;
        return state.emitOpError("cannot be in a flat bucket: it ")
               << reason << "; write bucket_layout: auto, or rows for '"
               << *state.getBucket() << "'";
      }
      StringRef kept = keys.try_emplace(key).first->first();
      byKey[kept].members.push_back(state);
    }
    for (Rule &rule : rules)
      if (!rule.isUsed)
        return module.emitError("expected buckets whose names match '")
               << rule.pattern << "', found none; fsdp-opt MODEL --explain "
               << "lists them";
    for (auto &[key, bucket] : byKey) {
      if (getLayout(*bucket.members.front().getBucket()) == BucketLayout::Flat)
        buckets.push_back(std::move(bucket));
      else
        weigh(bucket, uses, buckets);
    }
    return success();
  }

  /// For fsdp-copy-buckets, which copies where transfers start and end.
  static LogicalResult mark(StateOp state) {
    auto refuse = [&] {
      return state.emitOpError(
          "cannot be in a bucket of the layout fsdp2: it ");
    };
    if (int64_t dim = state.getSharding().getDim(); dim != 0)
      return refuse() << "is sharded along dim " << dim
                      << "; write bucket_layout: rows for '"
                      << *state.getBucket() << "'";
    if (state.getGlobalType().getNumElements() == 0)
      return refuse() << "has no elements; write bucket_layout: rows for '"
                      << *state.getBucket() << "'";
    state.setCopied(true);
    return success();
  }

  /// A flat state that gathers more than an eighth of itself in vain is taken
  /// apart. One parameter alone is one transfer in rows, too.
  static void weigh(FlatBucket &bucket, ArrayRef<ProgramUses> uses,
                    SmallVectorImpl<FlatBucket> &buckets) {
    int64_t all = 0, vain = 0;
    for (StateOp member : bucket.members)
      all += member.getGlobalType().getNumElements();
    for (const ProgramUses &use : uses)
      vain = std::max(vain, countVainElements(bucket.members, use));
    std::map<std::string, unsigned> numbers; // of parts, by how often
    SmallVector<FlatBucket> parts;
    for (StateOp member : bucket.members) {
      std::string lives;
      if (kVainShare * vain > all)
        for (const ProgramUses &use : uses)
          if (const ParameterUse *found = use.lookup(member))
            lives += found->lives + "/";
      auto [it, isNew] = numbers.try_emplace(lives, parts.size());
      if (isNew)
        parts.emplace_back();
      parts[it->second].members.push_back(member);
    }
    for (FlatBucket &part : parts)
      if (part.members.size() > 1)
        buckets.push_back(std::move(part));
  }

  /// Whether the optimizer will keep codes of it.
  bool isCodedHere(StateOp state) const {
    return state.getRole() == Role::Parameter && isCoded(state, stateDType);
  }

  bool describe(StateOp state, ArrayRef<ProgramUses> uses, bool isApartInTime,
                std::string &key, std::string &reason) const {
    llvm::raw_string_ostream stream(key);
    stream << *state.getBucket() << '\n'
           << stringifyRole(state.getRole()) << '\n'
           << state.getGlobalType().getElementType() << '\n'
           << state.getReduceType() << '\n'
           << state.getSharding() << '\n'
           << state.getSplit().has_value() << '\n'
           << state.getGroup().value_or(0) << '\n'
           << isCodedHere(state) << '\n';
    if (int64_t dim = state.getSharding().getDim(); dim != 0) {
      reason = "is sharded along dim " + std::to_string(dim);
      return false;
    }
    if (isCodedHere(state) &&
        getScaleLayout(state, /*ignoresShards=*/true).isShared) {
      reason = "is split over 'tp' within blocks of 256 elements, as which "
               "optimizer.state_dtype stores it";
      return false;
    }
    for (const ProgramUses &use : uses) {
      const ParameterUse *found = use.lookup(state);
      if (found && !found->problem.empty()) {
        reason = found->problem;
        return false;
      }
      stream << (found ? found->key : "absent") << '\n';
      if (found && isApartInTime)
        stream << found->phase << '\n';
    }
    return true;
  }

  void declare(FlatBucket &bucket, ArrayRef<ProgramUses> uses) {
    StateOp head = bucket.members.front();
    int64_t bytes = 8;
    for (const ProgramUses &use : uses)
      bytes = std::min(bytes, use.getLeastBytes(bucket.members));
    GroupAttr group = head.getSharding().getGroup();
    int64_t ranks = group.getSize();
    int64_t elements = placeMembers(
        bucket.members, ranks, bytes, getTarget(getOperation()).alignment,
        isCodedHere(head) ? kBlockElements : 1, bucket.offsets);
    unsigned &number = numbers[*head.getBucket()];
    std::string name = (*head.getBucket() + "/flat").str();
    if (number != 0)
      name += "/" + std::to_string(number);
    ++number;
    OpBuilder builder(head);
    Type element = head.getGlobalType().getElementType();
    bucket.flat = StateOp::create(builder, head.getLoc(), name, head.getRole(),
                                  RankedTensorType::get({elements}, element));
    bucket.flat.setPlacementAttr(FlatAttr::get(&getContext(), group));
    bucket.flat.setBucketAttr(head.getBucketAttr());
    bucket.flat.setGradientAttr(head.getGradientAttr());
    bucket.flat.setGroupAttr(head.getGroupAttr());
  }

  struct Rule {
    StringRef pattern;
    BucketLayout layout;
    bool isUsed = false;
  };
  BucketLayout layout; ///< of all buckets without a rule
  StateDType stateDType = StateDType::Parameter;
  SmallVector<Rule> rules;
  llvm::StringMap<unsigned> numbers; ///< of flat states, by bucket
};

} // namespace
