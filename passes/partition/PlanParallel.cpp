//===- PlanParallel.cpp - Which parameters are split ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/partition/PlanParallel.h"

#include "passes/analysis/Decisions.h"
#include "passes/analysis/ModulePaths.h"
#include "passes/analysis/NamePatterns.h"
#include "passes/partition/AutomaticPlan.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fsdp;

namespace {

class ParallelPlanner {
public:
  ParallelPlanner(ModuleOp module, ParallelAttr told)
      : module(module), told(told) {}

  LogicalResult run() {
    for (auto info : module.getOps<ModuleInfoOp>())
      classes[info.getPath()] = info.getClassName();
    if (failed(planByRules()))
      return failure();
    if (told.getAutomatic())
      planByProgram();
    split();
    return success();
  }

private:
  LogicalResult planByRules() {
    llvm::DenseSet<Attribute> unused;
    for (ParallelRuleAttr rule : getList<ParallelRuleAttr>(told.getPlan()))
      for (Attribute pattern : rule.getModules())
        unused.insert(pattern);
    for (StateOp state : module.getOps<StateOp>()) {
      if (!isParameter(state))
        continue;
      std::optional<ParallelStyle> style = findStyle(
          state, told, [&](Attribute pattern) { unused.erase(pattern); });
      if (!style)
        continue;
      fixed.insert(state);
      FailureOr<std::optional<int64_t>> dim = chooseDim(state, *style);
      if (failed(dim))
        return failure();
      if (!*dim)
        continue;
      if (failed(verifyEven(state, **dim)))
        return failure();
      splits.insert({state, **dim});
    }
    for (ParallelRuleAttr rule : getList<ParallelRuleAttr>(told.getPlan()))
      for (Attribute pattern : rule.getModules())
        if (unused.contains(pattern))
          return module.emitError("expected modules with parameters whose "
                                  "paths match '")
                 << cast<StringAttr>(pattern).getValue()
                 << "' of the tensor-parallel plan, found none";
    return success();
  }

  /// The dim that a style splits, none if it splits nothing of this parameter.
  FailureOr<std::optional<int64_t>> chooseDim(StateOp state,
                                              ParallelStyle style) {
    using Dim = std::optional<int64_t>;
    if (style == ParallelStyle::Replicate)
      return Dim();
    bool isColumns = style == ParallelStyle::Colwise;
    int64_t rank = state.getGlobalType().getRank();
    StringRef name = state.getAllNames().front();
    StringRef kind = classes.lookup(getParentPath(name));
    if (kind == "Embedding" && rank == 2)
      return Dim(isColumns ? 1 : 0);
    if (rank == 1 && (kind == "Linear" || kind == "Conv1D" || kind.empty()))
      return isColumns ? Dim(0) : Dim();
    if (kind == "Conv1D" && rank == 2)
      return Dim(isColumns ? 1 : 0);
    if ((kind == "Linear" || kind.ends_with("Linear") || kind.empty()) &&
        rank == 2)
      return Dim(isColumns ? 0 : 1);
    state.emitOpError("expects a parameter of a linear layer or an embedding "
                      "for the style '")
        << stringifyParallelStyle(style) << "', found one of "
        << (kind.empty() ? StringRef("an unknown class") : kind) << " with "
        << rank << " dims; leave the module out of the tensor-parallel plan";
    return failure();
  }

  LogicalResult verifyEven(StateOp state, int64_t dim) {
    int64_t size = state.getGlobalType().getDimSize(dim), ranks = told.getTp();
    if (size % ranks == 0 && size != 0)
      return success();
    InFlightDiagnostic diagnostic = state.emitOpError("has ")
                                    << size << " rows in dim " << dim
                                    << ", which 'tp: " << ranks
                                    << "' does not divide; ";
    std::string others = listDivisors(size, 64);
    diagnostic << (others.empty() ? "no number of ranks does"
                                  : others + " would work");
    return diagnostic;
  }

  void planByProgram() {
    StateTable states(module);
    for (func::FuncOp func : getPrograms(module)) {
      if (!func->hasAttr(kCapturedAttr) || isInference(func))
        continue;
      planAutomatically(
          func, states, told.getTp(),
          [&](StateOp state) { return fixed.contains(state); }, splits);
      return; // the others read the same parameters in the same way
    }
  }

  void split() {
    GroupAttr group = getTensorGroup(told);
    for (auto [op, dim] : splits) {
      auto state = cast<StateOp>(op);
      SmallVector<int64_t> shape(state.getGlobalType().getShape());
      shape[dim] /= told.getTp();
      state.setType(
          RankedTensorType::get(shape, state.getGlobalType().getElementType()));
      remarkOn(state, dim);
      state.setSplitAttr(ShardingAttr::get(module.getContext(), dim, group));
    }
  }

  void remarkOn(StateOp state, int64_t dim) const {
    if (!wantsRemarks(state))
      return;
    std::string text = "'" + state.getSymName().str() +
                       "' is split along dim " + std::to_string(dim) +
                       " over " + std::to_string(told.getTp()) + " ranks, ";
    text += fixed.contains(state)
                ? "as the plan says"
                : "since all that is computed of it can be computed in parts";
    remark::passed(state.getLoc(),
                   remark::RemarkOpts::name("Split").category("parallel"))
        << text;
  }

  ModuleOp module;
  ParallelAttr told;
  llvm::StringMap<StringRef> classes;
  llvm::DenseSet<Operation *> fixed;
  Splits splits;
};

} // namespace

std::optional<ParallelStyle>
fsdp::findStyle(StateOp state, ParallelAttr told,
                function_ref<void(Attribute)> match) {
  std::optional<ParallelStyle> style;
  for (ParallelRuleAttr rule : getList<ParallelRuleAttr>(told.getPlan()))
    for (Attribute pattern : rule.getModules())
      for (StringRef name : state.getAllNames())
        if (matchesAny(ArrayAttr::get(told.getContext(), pattern),
                       getParentPath(name))) {
          match(pattern);
          style = rule.getStyle();
        }
  return style;
}

bool fsdp::splitsClasses(StateOp state, ParallelAttr told) {
  if (state.getGlobalType().getDimSize(0) % told.getTp() != 0)
    return false;
  std::optional<ParallelStyle> style = findStyle(state, told, [](Attribute) {});
  return style ? *style == ParallelStyle::Colwise : told.getAutomatic();
}

std::string fsdp::listDivisors(int64_t size, int64_t most) {
  std::string text;
  for (int64_t number = 2; number <= std::min(size, most); ++number)
    if (size % number == 0)
      text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

LogicalResult fsdp::planParallel(ModuleOp module, ParallelAttr told) {
  return ParallelPlanner(module, told).run();
}
