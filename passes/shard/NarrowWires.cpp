//===- NarrowWires.cpp - In what type gradients travel --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Entries.h"
#include "passes/analysis/NamePatterns.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/analysis/TensorOps.h"
#include "passes/analysis/Transfers.h"
#include "passes/shard/LowPrecision.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_NARROWWIRES
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// Below it a gradient's greatest value is taken for this, so that the scale
/// and its inverse are numbers of f32.
constexpr double kLeastWireMaximum = 0x1p-100;

struct NarrowWires final : fsdp::impl::NarrowWiresBase<NarrowWires> {
  void runOnOperation() override {
    if (failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(ModuleOp module) {
    StringAttr everywhere = getSetting<StepAttr>(module).getReduceWire();
    SmallVector<RuleAttr> rules =
        getList<RuleAttr>(getSetting<BucketsAttr>(module).getRules());
    llvm::erase_if(rules, [](RuleAttr rule) { return !rule.getReduceWire(); });
    if (!everywhere && rules.empty())
      return success();
    llvm::StringSet<> names = getBucketNames(module);
    for (RuleAttr rule : rules)
      if (failed(verifyMatches(module, rule, names, "buckets")))
        return failure();
    f32 = Float32Type::get(&getContext());
    StateTable states(module);
    for (func::FuncOp func : getPrograms(module)) {
      Buckets buckets;
      for (auto scatter : func.getOps<ReduceScatterOp>())
        if (scatter.getOf() && scatter.getGroup().getSize() > 1 &&
            getTensor(scatter.getFull()).getElementType() == f32)
          buckets[getBucket(scatter, states)].push_back(scatter);
      for (auto &[key, scatters] : buckets) {
        StringAttr told = everywhere;
        for (RuleAttr rule : rules)
          if (auto name = dyn_cast_or_null<StringAttr>(key.first);
              name && matchesAny(rule.getBuckets(), name))
            told = rule.getReduceWire();
        narrow(scatters, told);
      }
    }
    casts.appendTo(module, "wire");
    return success();
  }

  void narrow(ArrayRef<ReduceScatterOp> scatters, StringAttr told) {
    if (told == "float8") {
      wire = Float8E4M3FNType::get(&getContext());
      return scale(scatters);
    }
    if (told != "bfloat16")
      return;
    wire = BFloat16Type::get(&getContext());
    for (ReduceScatterOp scatter : scatters)
      narrow(scatter);
  }

  /// By bucket and group.
  using Buckets = llvm::MapVector<std::pair<Attribute, Attribute>,
                                  SmallVector<ReduceScatterOp>>;

  static Buckets::key_type getBucket(ReduceScatterOp scatter,
                                     const StateTable &states) {
    StateOp state = states.lookup(scatter.getOfAttr());
    Attribute bucket = state ? state.getBucketAttr() : StringAttr();
    return {bucket ? bucket : scatter.getOfAttr(), scatter.getGroup()};
  }

  void narrow(ReduceScatterOp scatter) {
    TensorOps ops(scatter);
    // What backward computed in this type lies in it.
    Value full = scatter.getFull();
    scatter.getFullMutable().assign(ops.cast(ops.copy(full), wire));
    note(scatter);
  }

  /// Each gradient once, however many programs a step has.
  void note(ReduceScatterOp scatter) {
    if (endsStep(scatter->getParentOfType<func::FuncOp>()))
      casts.add("gradient", f32, wire);
  }

  /// All members where the last of them is there, so that their maxima travel
  /// together.
  void scale(ArrayRef<ReduceScatterOp> scatters) {
    ReduceScatterOp last = scatters.back();
    SmallVector<Operation *> tails = collectTails(scatters);
    TensorOps ops(last);
    auto number = RankedTensorType::get({}, f32);
    SmallVector<Value> tensors, maxima;
    for (ReduceScatterOp scatter : scatters) {
      ops.setLoc(scatter.getLoc());
      tensors.push_back(ops.copy(scatter.getFull()));
      maxima.push_back(AmaxOp::create(ops.get(), ops.getLoc(), number,
                                      tensors.back(), IntegerAttr()));
    }
    for (auto [scatter, value] : llvm::zip_equal(scatters, maxima)) {
      ReduceScatterOp each = scatter;
      value = AllReduceOp::create(ops.get(), each.getLoc(), value.getType(),
                                  value, Reduction::Max, each.getGroup(),
                                  FlatSymbolRefAttr(), Purpose::Scale);
    }
    SmallVector<Value> scales;
    for (auto [scatter, tensor, greatest] :
         llvm::zip_equal(scatters, tensors, maxima)) {
      ReduceScatterOp each = scatter;
      ops.setLoc(each.getLoc());
      // What is not small beside the greatest is rounded alike, whatever the
      // power of two.
      scales.push_back(ScaleOp::create(
          ops.get(), ops.getLoc(), number, greatest, TypeAttr::get(wire),
          ops.get().getF64FloatAttr(kLeastWireMaximum),
          ops.get().getUnitAttr()));
      each.getFullMutable().assign(
          EncodeOp::create(ops.get(), ops.getLoc(),
                           getTensor(tensor).clone(wire), tensor, scales.back())
              .getCode());
      note(each);
      if (each != last)
        each->moveBefore(last);
    }
    Operation *end = last;
    ops.get().setInsertionPointAfter(last);
    for (auto [scatter, scale] : llvm::zip_equal(scatters, scales)) {
      ReduceScatterOp each = scatter;
      ops.setLoc(each.getLoc());
      Value sums = each.getShard();
      auto decode = DecodeOp::create(ops.get(), each.getLoc(), sums.getType(),
                                     sums, scale);
      end = decode;
      sums.replaceAllUsesExcept(decode.getResult(), end);
    }
    for (Operation *tail : tails) {
      tail->moveAfter(end);
      end = tail;
    }
  }

  /// What reads the results in front of the last one, in order.
  static SmallVector<Operation *>
  collectTails(ArrayRef<ReduceScatterOp> scatters) {
    Operation *last = scatters.back();
    SmallVector<Operation *> ops(scatters.begin(), scatters.end());
    SmallVector<Operation *> tails = collectReaders(
        ops, [&](Operation *reader) { return reader->isBeforeInBlock(last); });
    llvm::sort(tails, [](Operation *a, Operation *b) {
      return a->isBeforeInBlock(b);
    });
    return tails;
  }

  Type f32, wire;
  CastList casts;
};

} // namespace
