//===- PlanParallel.cpp - Which parameters are split ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/partition/PlanParallel.h"

#include "passes/analysis/Decisions.h"
#include "passes/analysis/Mesh.h"
#include "passes/analysis/ModulePaths.h"
#include "passes/analysis/NamePatterns.h"
#include "passes/analysis/Programs.h"
#include "passes/partition/AutomaticPlan.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fsdp;

/// The dim that `style` splits of a parameter of a module of class `kind`, none
/// if it splits nothing of it; failure if it does not fit.
static FailureOr<std::optional<int64_t>>
chooseDim(StateOp state, ParallelStyle style, StringRef kind) {
  using Dim = std::optional<int64_t>;
  if (style == ParallelStyle::Replicate)
    return Dim();
  bool isColumns = style == ParallelStyle::Colwise;
  int64_t rank = getNumbersType(state).getRank();
  if (kind == "Embedding" && rank == 2)
    return Dim(isColumns ? 1 : 0);
  if (rank == 1 && (kind == "Linear" || kind == "Conv1D" || kind.empty()))
    return isColumns ? Dim(0) : Dim();
  if (kind == "Conv1D" && rank == 2)
    return Dim(isColumns ? 1 : 0);
  if ((kind == "Linear" || kind.ends_with("Linear") || kind.empty()) &&
      rank == 2)
    return Dim(isColumns ? 0 : 1);
  return failure();
}

/// Classes by the paths of their modules.
static llvm::StringMap<StringRef> listClasses(ModuleOp module) {
  llvm::StringMap<StringRef> classes;
  for (auto info : module.getOps<ModuleInfoOp>())
    classes[info.getPath()] = info.getClassName();
  return classes;
}

namespace {

/// What a plan says of a module that has a parameter.
struct Told {
  StringRef module;
  ParallelStyle style;
};
} // namespace

/// What the last rule says that matches each module of `state`; each pattern
/// that matches is passed to `match`.
static SmallVector<Told> findStyles(StateOp state, ParallelAttr told,
                                    function_ref<void(Attribute)> match) {
  SmallVector<Told> found;
  for (StringRef name : state.getAllNames()) {
    StringRef module = getParentPath(name);
    std::optional<ParallelStyle> style;
    for (ParallelRuleAttr rule : getList<ParallelRuleAttr>(told.getPlan()))
      for (Attribute pattern : rule.getModules())
        if (matchesAny(ArrayAttr::get(told.getContext(), pattern), module)) {
          match(pattern);
          style = rule.getStyle();
        }
    if (style)
      found.push_back({module, *style});
  }
  return found;
}

namespace {

class ParallelPlanner {
public:
  ParallelPlanner(ModuleOp module, ParallelAttr told)
      : module(module), told(told) {}

  LogicalResult run() {
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
      SmallVector<Told> styles = findStyles(
          state, told, [&](Attribute pattern) { unused.erase(pattern); });
      if (styles.empty())
        continue;
      fixed.insert(state);
      FailureOr<std::optional<int64_t>> dim = chooseOne(state, styles);
      if (failed(dim))
        return failure();
      if (!*dim)
        continue;
      if (failed(verifyEven(state, **dim)))
        return failure();
      splits.insert({state, Place(**dim)});
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

  /// The dim of `state` that the styles of all its modules split.
  FailureOr<std::optional<int64_t>> chooseOne(StateOp state,
                                              ArrayRef<Told> styles) {
    std::optional<std::optional<int64_t>> chosen;
    for (auto [path, style] : styles) {
      StringRef kind = classes.lookup(path);
      FailureOr<std::optional<int64_t>> dim = chooseDim(state, style, kind);
      if (failed(dim)) {
        state.emitOpError("expects a parameter of a linear layer or an "
                          "embedding for the style '")
            << stringifyParallelStyle(style) << "', found one of "
            << (kind.empty() ? StringRef("an unknown class") : kind) << " with "
            << getNumbersType(state).getRank()
            << " dims; leave the module out of the tensor-parallel plan";
        return failure();
      }
      if (chosen && *chosen != *dim) {
        state.emitOpError("is shared by '")
            << styles.front().module << "' and '" << path
            << "', whose styles split it otherwise; expected styles that split "
               "the same dim (an embedding's 'rowwise' and a linear layer's "
               "'colwise' do)";
        return failure();
      }
      chosen = *dim;
    }
    return *chosen;
  }

  LogicalResult verifyEven(StateOp state, int64_t dim) {
    int64_t size = getNumbersType(state).getDimSize(dim), ranks = told.getTp();
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
    for (auto [op, cut] : splits) {
      auto [dim, blocks] = cut;
      auto state = cast<StateOp>(op);
      remarkOn(state, cut);
      auto split = SplitAttr::get(module.getContext(), dim, blocks, group);
      if (state.getQuantized()) {
        markNumbers(state, split);
        continue;
      }
      SmallVector<int64_t> shape(state.getGlobalType().getShape());
      shape[dim] /= told.getTp();
      state.setType(
          RankedTensorType::get(shape, state.getGlobalType().getElementType()));
      state.setSplitAttr(split);
    }
  }

  void markNumbers(StateOp state, SplitAttr split) {
    StateTable states(module);
    for (func::FuncOp func : getPrograms(module))
      for (DequantizeOp op : func.getOps<DequantizeOp>())
        if (auto codes = dyn_cast<BlockArgument>(op.getBlocks());
            codes && states.lookup(func, codes.getArgNumber()) == state)
          op->setAttr(kNumbersAttr, split);
  }

  void remarkOn(StateOp state, Place cut) const {
    if (!wantsRemarks(state))
      return;
    std::string text =
        "'" + state.getSymName().str() + "' is split along dim " +
        std::to_string(cut.dim) +
        (cut.blocks == 1 ? ""
                         : " in " + std::to_string(cut.blocks) + " blocks") +
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
  llvm::StringMap<StringRef> classes = listClasses(module);
  llvm::DenseSet<Operation *> fixed;
  Splits splits;
};

} // namespace

bool fsdp::splitsClasses(StateOp state, ParallelAttr told) {
  if (getNumbersType(state).getDimSize(0) % told.getTp() != 0)
    return false;
  SmallVector<Told> styles = findStyles(state, told, [](Attribute) {});
  if (styles.empty())
    return told.getAutomatic();
  auto classes = listClasses(state->getParentOfType<ModuleOp>());
  return llvm::all_of(styles, [&](Told each) {
    auto dim = chooseDim(state, each.style, classes.lookup(each.module));
    return succeeded(dim) && *dim == 0;
  });
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
