//===- OffloadStates.cpp - States in the host's memory --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "ir/aten/Matchers.h"
#include "passes/Passes.h"
#include "passes/analysis/Decisions.h"
#include "passes/analysis/Entries.h"
#include "passes/analysis/ForwardSlice.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/Resharding.h"
#include "passes/analysis/SecondLife.h"
#include "passes/analysis/States.h"
#include "passes/analysis/Transfers.h"
#include "support/Format.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_OFFLOADSTATES
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// The first of `ops` in their block.
Operation *findFirst(ArrayRef<Operation *> ops) {
  Operation *first = ops.front();
  for (Operation *op : ops.drop_front())
    if (op->isBeforeInBlock(first))
      first = op;
  return first;
}

/// Gives one program its copies.
class StateOffloader {
public:
  StateOffloader(func::FuncOp func, const StateTable &states,
                 BucketsAttr buckets)
      : func(func), body(func.getBody().front()), states(states),
        buckets(buckets), builder(func.getContext()) {}

  void run() {
    for (BlockArgument argument : func.getArguments())
      if (StateOp state = states.lookup(func, argument.getArgNumber());
          state && state.isOnHost())
        onHost.insert(argument);
    uploadShards();
    uploadWhole();
    placeOps();
    splitNorms();
  }

private:
  StateOp getState(Value argument) const {
    return states.lookup(func, cast<BlockArgument>(argument).getArgNumber());
  }

  //===--------------------------------------------------------------------===//
  // Parameters
  //===--------------------------------------------------------------------===//

  /// A parameter on the host as the device reads it in one of its lives.
  Value upload(BlockArgument param, bool again, Operation *reader) {
    Value &known = uploads[{param, unsigned(again)}];
    if (known)
      return known;
    builder.setInsertionPoint(reader);
    Value source = param;
    if (again) {
      source =
          ReplayOp::create(builder, param.getLoc(), param.getType(), param);
      onHost.insert(source);
    }
    known = CopyOp::create(builder, param.getLoc(), param.getType(), source,
                           MemorySpace::Device, refTo(getState(param)));
    return known;
  }

  /// Casts and replays of one gather alone, made again behind its upload.
  void uploadShards() {
    SmallVector<AllGatherOp> gathers(func.getOps<AllGatherOp>());
    for (AllGatherOp gather : gathers) {
      Value shard = gather.getShard();
      SmallVector<Operation *> casts;
      bool again = false;
      for (Operation *op = shard.getDefiningOp(); op && isShardSide(op);
           op = shard.getDefiningOp()) {
        if (isa<ReplayOp>(op))
          again = true;
        else
          casts.push_back(op);
        shard = op->getOperand(0);
      }
      auto param = dyn_cast<BlockArgument>(shard);
      if (!param || !onHost.contains(param))
        continue;
      Value value = upload(param, again, gather);
      builder.setInsertionPoint(gather);
      for (Operation *cast : llvm::reverse(casts)) {
        IRMapping mapping;
        mapping.map(cast->getOperand(0), value);
        value = builder.clone(*cast, mapping)->getResult(0);
      }
      Operation *old = gather.getShard().getDefiningOp();
      gather.getShardMutable().assign(value);
      while (old && old->use_empty() && isShardSide(old)) {
        Operation *next = old->getOperand(0).getDefiningOp();
        old->erase();
        old = next;
      }
    }
  }

  /// Whether a bucket's parameters are not kept between forward and backward.
  bool isResharded(StateOp state) const {
    return getReshardRanks(buckets, state.getBucket().value_or("")) != 1;
  }

  /// Parameters that no gather stands in front of. The greatest value of a
  /// shard is a number, which the host finds.
  void uploadWhole() {
    Operation *last =
        isInference(func) ? nullptr : ForwardSlice(func).getLast();
    llvm::DenseMap<Operation *, unsigned> positions;
    for (auto [i, op] : llvm::enumerate(body))
      positions[&op] = i;
    for (BlockArgument param : func.getArguments()) {
      if (!onHost.contains(param) || !isParameter(getState(param)))
        continue;
      SmallVector<OpOperand *> uses;
      SmallVector<Operation *> users;
      for (OpOperand &use : param.getUses())
        if (!isa<UpdateOp, BlockMaximaOp, CopyOp, ReplayOp, func::ReturnOp>(
                use.getOwner()) &&
            !(getState(param).getSharding() && isa<AmaxOp>(use.getOwner()))) {
          uses.push_back(&use);
          users.push_back(use.getOwner());
        }
      if (uses.empty())
        continue;
      Value first = upload(param, /*again=*/false, findFirst(users));
      for (OpOperand *use : uses)
        use->set(first);
      if (last && isResharded(getState(param)))
        giveSecondLife(first, positions, positions.at(last),
                       [&](OpBuilder &at, Operation *) {
                         return upload(param, /*again=*/true,
                                       &*at.getInsertionPoint());
                       });
    }
  }

  //===--------------------------------------------------------------------===//
  // What is computed where
  //===--------------------------------------------------------------------===//

  Value move(Value value, MemorySpace to, FlatSymbolRefAttr of) {
    Value &known = moved[value];
    if (known)
      return known;
    builder.setInsertionPointAfterValue(value);
    Value copy =
        CopyOp::create(builder, value.getLoc(), value.getType(), value, to, of);
    if (to == MemorySpace::Host)
      onHost.insert(copy);
    return moved[value] = copy;
  }

  /// Brings an operand to where its op reads it.
  void bring(OpOperand &operand, MemorySpace to, FlatSymbolRefAttr of = {}) {
    Value value = operand.get();
    if (!isa<RankedTensorType>(value.getType()) ||
        onHost.contains(value) == (to == MemorySpace::Host))
      return;
    auto constant = value.getDefiningOp<ConstantOp>();
    if (!constant) {
      operand.set(move(value, to, of));
    } else if (!constant->hasOneUse() && to == MemorySpace::Host) {
      // One for each memory.
      builder.setInsertionPoint(operand.getOwner());
      operand.set(builder.clone(*constant)->getResult(0));
    }
  }

  /// Of which parameter an operand is the gradient.
  template <typename Update>
  static FlatSymbolRefAttr getGradientOf(Update op, OpOperand &operand,
                                         func::FuncOp func) {
    unsigned first = op.getGrads().getBeginOperandIndex();
    unsigned number = operand.getOperandNumber() - first;
    if (operand.getOperandNumber() < first || number >= op.getGrads().size())
      return {};
    BlockArgument param = getUpdatedArgument(op.getParams()[number]);
    return param ? func.getArgAttrOfType<FlatSymbolRefAttr>(
                       param.getArgNumber(), kStateAttr)
                 : FlatSymbolRefAttr();
  }

  /// The optimizer's parameter at an operand, which lies on the device.
  FlatSymbolRefAttr getParameter(Value value) const {
    auto argument = dyn_cast<BlockArgument>(value);
    StateOp state =
        argument ? states.lookup(func, argument.getArgNumber()) : StateOp();
    return state && isParameter(state) ? refTo(state) : FlatSymbolRefAttr();
  }

  void placeOnHost(Operation &op) {
    auto update = dyn_cast<UpdateOp>(op);
    auto maxima = dyn_cast<BlockMaximaOp>(op);
    auto sum = dyn_cast<AccumulateOp>(op);
    for (OpOperand &operand : op.getOpOperands()) {
      FlatSymbolRefAttr of;
      if (update || maxima) {
        of = update ? getGradientOf(update, operand, func)
                    : getGradientOf(maxima, operand, func);
        if (!of)
          of = getParameter(operand.get());
      } else if (sum) {
        of = sum.getOfAttr();
      }
      bring(operand, MemorySpace::Host, of);
    }
    onHost.insert(op.result_begin(), op.result_end());
  }

  bool readsHost(Operation &op) const {
    return llvm::any_of(op.getOperands(), [&](Value operand) {
      return onHost.contains(operand);
    });
  }

  void placeOps() {
    for (Operation &op : llvm::make_early_inc_range(body)) {
      if (isa<CopyOp, ReplayOp>(op) || !readsHost(op)) {
        if (isa<func::ReturnOp>(op))
          placeResults(op);
        continue;
      }
      if (isa<func::ReturnOp>(op)) {
        placeResults(op);
      } else if (auto sum = dyn_cast<AccumulateOp>(op);
                 isa<CollectiveOpInterface, ShardOp>(op) ||
                 (sum && !onHost.contains(sum.getInto()))) {
        for (OpOperand &operand : op.getOpOperands())
          bring(operand, MemorySpace::Device);
      } else {
        placeOnHost(op);
      }
    }
  }

  void placeResults(Operation &op) {
    for (OpOperand &operand : op.getOpOperands()) {
      StateOp state = states.lookup(func.getResultAttrOfType<FlatSymbolRefAttr>(
          operand.getOperandNumber(), kStateAttr));
      FlatSymbolRefAttr of;
      if (state && isParameter(state))
        of = refTo(state);
      else if (state && state.getRole() == Role::Gradient)
        of = state.getOfAttr();
      bring(operand,
            state && state.isOnHost() ? MemorySpace::Host : MemorySpace::Device,
            of);
    }
  }

  //===--------------------------------------------------------------------===//
  // Norms
  //===--------------------------------------------------------------------===//

  /// The copy to the host of a gradient, else null.
  static CopyOp getDownload(Value gradient) {
    for (Operation *user : gradient.getUsers())
      if (auto copy = dyn_cast<CopyOp>(user);
          copy && copy.getTo() == MemorySpace::Host && copy.getOf())
        return copy;
    return {};
  }

  /// One norm reads the gradients of all buckets, which would wait for it.
  void splitNorms() {
    SmallVector<Operation *> norms;
    for (Operation &op : body)
      if (aten::isNorm(&op) && op.getNumOperands() > 1 &&
          op.getNumResults() == op.getNumOperands() && !readsHost(op) &&
          llvm::all_of(op.getOperands(), [](Value gradient) {
            return bool(getDownload(gradient));
          }))
        norms.push_back(&op);
    for (Operation *norm : norms)
      splitNorm(norm);
  }

  void splitNorm(Operation *norm) {
    llvm::MapVector<StringAttr, SmallVector<unsigned>> members;
    for (auto [i, gradient] : llvm::enumerate(norm->getOperands()))
      members[states.lookup(getDownload(gradient).getOfAttr()).getBucketAttr()]
          .push_back(unsigned(i));
    // Its arguments but for the tensors.
    SmallVector<NamedAttribute> arguments;
    for (StringRef name : {"ord", "dtype"})
      if (Attribute value = aten::getStaticArgument(norm, name))
        arguments.push_back(builder.getNamedAttr(name, value));
    for (auto &[bucket, numbers] : members) {
      SmallVector<Value> gradients;
      SmallVector<Type> types;
      Operation *last = nullptr;
      for (unsigned i : numbers) {
        gradients.push_back(norm->getOperand(i));
        types.push_back(norm->getResult(i).getType());
        Operation *op = norm->getOperand(i).getDefiningOp();
        if (op && (!last || last->isBeforeInBlock(op)))
          last = op;
      }
      if (last)
        builder.setInsertionPointAfter(last);
      else
        builder.setInsertionPoint(norm);
      Operation *own = aten::buildAtenOp(
          builder, norm->getLoc(), norm->getName().getStringRef(),
          aten::TensorArgument(ArrayRef<Value>(gradients)), arguments, types);
      for (auto [i, result] : llvm::zip_equal(numbers, own->getResults()))
        norm->getResult(i).replaceAllUsesWith(result);
    }
    norm->erase();
  }

  func::FuncOp func;
  Block &body;
  const StateTable &states;
  BucketsAttr buckets;
  OpBuilder builder;
  llvm::DenseSet<Value> onHost;
  llvm::DenseMap<std::pair<Value, unsigned>, Value> uploads; // by life
  llvm::DenseMap<Value, Value> moved;
};

struct OffloadStates final : fsdp::impl::OffloadStatesBase<OffloadStates> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto told = getSetting<OffloadAttr>(module);
    if (!told.getParams() && !told.getOptimizer())
      return;
    if (failed(verify(module)))
      return signalPassFailure();
    StateTable states(module);
    for (StateOp state : states.getStates())
      state.setOnHost(leaves(state, states, told));
    if (wantsRemarks(module))
      explain(states, told);
    auto buckets = getSetting<BucketsAttr>(module);
    for (func::FuncOp func : getPrograms(module))
      StateOffloader(func, states, buckets).run();
  }

private:
  void explain(const StateTable &states, OffloadAttr told) {
    uint64_t params = 0, optimizer = 0;
    for (StateOp state : states.getStates())
      if (auto type = dyn_cast<RankedTensorType>(state.getLocalType());
          type && state.isOnHost())
        (isParameter(state) ? params : optimizer) +=
            static_cast<uint64_t>(aten::getStorageBytes(type));
    auto say = [&](StringRef name, uint64_t bytes, const char *what,
                   const char *key) {
      if (bytes != 0)
        remark::passed(getOperation().getLoc(),
                       remark::RemarkOpts::name(name).category("offload"))
            << (formatBytes(bytes) + " of " + what +
                " lie in the host's memory on each rank")
            << remark::reason("{0} is set", key);
    };
    say("ParametersOnHost", params, "parameters", "offload_params");
    say("OptimizerOnHost", optimizer, "the optimizer's states and gradients",
        told.getParams() ? "offload_params" : "offload_optimizer");
  }

  static LogicalResult verify(ModuleOp module) {
    for (StateOp state : module.getOps<StateOp>())
      if (state.isOnHost())
        return state.emitOpError("lies on the host already; expected states on "
                                 "the device");
    return success();
  }

  static bool leaves(StateOp state, const StateTable &states,
                     OffloadAttr told) {
    if (PartAttr part = state.getPart())
      return leaves(states.lookup(part.getFlat()), states, told);
    switch (state.getRole()) {
    case Role::Parameter:
    case Role::Frozen:
      return told.getParams();
    case Role::Optimizer:
    case Role::Step:
    case Role::LearningRate:
      return true;
    case Role::Gradient: {
      // Sums of whole gradients are reduced on the device.
      StateOp param = states.lookup(state.getOfAttr());
      return told.getParams() && param &&
             param.getPlacementAttr() == state.getPlacementAttr();
    }
    case Role::Buffer:
    case Role::Constant:
    case Role::Gathered:
    case Role::Scalar:
    case Role::Random:
    case Role::LossScale:
    case Role::LossGrowth:
      return false;
    }
    llvm_unreachable("all roles lie somewhere");
  }
};

} // namespace
