//===- QuantizeBases.cpp - Frozen matrices in blocks of codes -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Matchers.h"
#include "passes/Passes.h"
#include "passes/analysis/Decisions.h"
#include "passes/analysis/ModulePaths.h"
#include "passes/analysis/NamePatterns.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/shard/LowPrecision.h"
#include "support/Pattern.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_QUANTIZEBASES
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

struct QuantizeBases final : fsdp::impl::QuantizeBasesBase<QuantizeBases> {
  void runOnOperation() override {
    told = getSetting<QuantizeAttr>(getOperation());
    if (told.getModules() && failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(ModuleOp module) {
    for (auto op : module.getOps<ModuleInfoOp>())
      classes[op.getPath()] = op.getClassName();
    StateTable states(module);
    SmallVector<StateOp> chosen;
    if (failed(choose(module, chosen)))
      return failure();
    // Programs are bound to the types that the states have until then.
    SmallVector<std::pair<func::FuncOp, SmallVector<unsigned>>> programs;
    for (func::FuncOp func : getPrograms(module)) {
      SmallVector<unsigned> &numbers =
          programs.emplace_back(func, SmallVector<unsigned>()).second;
      for (unsigned i = 0; i < func.getNumArguments(); ++i)
        if (StateOp state = states.lookup(func, i);
            state && llvm::is_contained(chosen, state))
          numbers.push_back(i);
    }
    for (StateOp state : chosen)
      quantize(state);
    for (auto &[func, numbers] : programs) {
      for (unsigned number : numbers)
        if (failed(dequantize(func, number, states.lookup(func, number))))
          return failure();
      setTypes(func);
    }
    casts.appendTo(module, "quantize");
    return success();
  }

  /// How a pattern matches a parameter.
  enum class Match { None, Name, Module };

  static Match match(StringRef pattern, StateOp state) {
    auto matches = [&](StringRef at) {
      return matchesPattern(pattern.str(), at.str());
    };
    Match found = Match::None;
    for (StringRef name : state.getAllNames()) {
      if (findAround(getParentPath(name), matches))
        return Match::Module;
      if (matches(name))
        found = Match::Name;
    }
    return found;
  }

  /// Whether one of the modules that have it is called as if it were one.
  bool isOf(StateOp state, ArrayRef<StringRef> kinds) const {
    return llvm::any_of(state.getAllNames(), [&](StringRef name) {
      StringRef found = classes.lookup(getParentPath(name));
      return llvm::any_of(kinds,
                          [&](StringRef kind) { return found.contains(kind); });
    });
  }

  /// Why a parameter that is matched so stays as it is; empty: it does not.
  std::string getObstacle(StateOp state, Match how) const {
    RankedTensorType type = state.getGlobalType();
    Type element = type.getElementType();
    if (state.getRole() == Role::Parameter)
      return "it is trained";
    if (starts.contains(state.getSymName()))
      return "it is where an adapter began";
    if (state.getModelElement())
      return "it is held in float32 as optimizer.master_dtype asks";
    if (type.getRank() < 2 || type.getNumElements() == 0)
      return "it is no matrix";
    if (!element.isF32() && !element.isBF16() && !element.isF16())
      return "its elements are neither f32 nor bf16 nor f16";
    if (isOf(state, {"Embedding"}))
      return "it is an embedding, of which few rows are read";
    bool isKnown = classes.contains(getParentPath(state.getSymName()));
    if (how == Match::Module && isKnown && !isOf(state, {"Linear", "Conv1D"}))
      return "it is of no linear layer, and is to be named itself";
    return {};
  }

  LogicalResult choose(ModuleOp module, SmallVectorImpl<StateOp> &chosen) {
    llvm::StringMap<std::string> matched; // by pattern: why nothing came of it
    if (auto adapters = module->getAttrOfType<ArrayAttr>(kAdaptersAttr))
      for (auto adapter : adapters.getAsRange<AdapterAttr>())
        for (FlatSymbolRefAttr first :
             {adapter.getFirstDown(), adapter.getFirstUp()})
          if (first)
            starts.insert(first.getValue());
    for (StateOp state : module.getOps<StateOp>()) {
      if (!isParameter(state))
        continue;
      bool isSkipped = false, isChosen = false;
      for (StringRef pattern : getTexts(told.getSkip()))
        if (match(pattern, state) != Match::None) {
          isSkipped = true;
          skipped.insert(pattern);
        }
      for (StringRef pattern : getTexts(told.getModules())) {
        Match how = match(pattern, state);
        if (how == Match::None)
          continue;
        std::string obstacle = getObstacle(state, how);
        isChosen |= obstacle.empty();
        std::string &why = matched[pattern];
        if (obstacle.empty())
          why = kChosen.str();
        else if (why.empty())
          why = "'" + state.getSymName().str() + "', but " + obstacle;
      }
      if (isChosen && !isSkipped)
        chosen.push_back(state);
    }
    return verifyPatterns(module, matched, !chosen.empty());
  }

  LogicalResult verifyPatterns(ModuleOp module,
                               const llvm::StringMap<std::string> &matched,
                               bool hasAny) const {
    // A list for several models may name what this one does not have.
    auto refuse = [&](StringRef pattern, StringRef list) {
      bool isLeft = hasAny && list == "modules";
      return (isLeft ? module.emitWarning("the pattern '")
                     : module.emitError("the pattern '"))
             << pattern << "' of quantize's " << list
             << " matches no parameter and no module with parameters"
             << suggestNames(pattern, getParameterNames(module));
    };
    for (StringRef pattern : getTexts(told.getSkip()))
      if (!skipped.contains(pattern))
        return refuse(pattern, "skip_modules");
    for (StringRef pattern : getTexts(told.getModules())) {
      auto it = matched.find(pattern);
      if (it == matched.end()) {
        InFlightDiagnostic diagnostic = refuse(pattern, "modules");
        if (!hasAny)
          return diagnostic;
        continue;
      }
      if (StringRef(it->second) != kChosen)
        return module.emitError("the pattern '")
               << pattern
               << "' of quantize's modules matches no frozen matrix: there is "
               << it->second
               << "; freeze what is to be quantized (requires_grad_(False)) "
                  "before the export";
    }
    if (hasAny)
      return success();
    return module.emitError("expected a frozen matrix among quantize's modules "
                            "that skip_modules leaves, found none");
  }

  void quantize(StateOp state) {
    RankedTensorType type = state.getGlobalType();
    auto plain = RankedTensorType::get(type.getShape(), type.getElementType());
    auto quantized =
        QuantizedAttr::get(&getContext(), told.getKind(), told.getBlockSize(),
                           told.getDoubleQuant(), plain);
    state.setQuantizedAttr(quantized);
    state.setTypeAttr(TypeAttr::get(quantized.getBlocksType()));
    casts.add(stringifyQuantizedKind(told.getKind()), type.getElementType(),
              quantized.getBlocksType().getElementType());
  }

  /// What reads the parameter reads what its blocks stand for, in the type that
  /// it is read in.
  LogicalResult dequantize(func::FuncOp func, unsigned number, StateOp state) {
    BlockArgument argument = func.getArgument(number);
    if (cast<RankedTensorType>(argument.getType()).getEncoding())
      return state.emitOpError(
          "expects a parameter that is contiguous to be quantized, found "
          "strides; call contiguous() on it before the export");
    RankedTensorType type = state.getQuantized()->getType();
    SmallVector<OpOperand *> reads;
    for (OpOperand &use : argument.getUses())
      reads.push_back(&use);
    llvm::stable_sort(reads, [](OpOperand *a, OpOperand *b) {
      return a->getOwner()->isBeforeInBlock(b->getOwner());
    });
    argument.setType(state.getGlobalType());
    llvm::DenseMap<Type, Value> made;
    auto make = [&](RankedTensorType as, Operation *reader) {
      Value &value = made[as];
      if (!value) {
        OpBuilder builder(reader);
        value = DequantizeOp::create(builder, reader->getLoc(), as, argument,
                                     told.getKind(), told.getBlockSize(),
                                     told.getDoubleQuant())
                    .getResult();
      }
      return value;
    };
    for (OpOperand *read : reads) {
      Operation *reader = read->getOwner();
      if (isHalving(reader, type)) {
        auto half = cast<RankedTensorType>(reader->getResult(0).getType());
        reader->getResult(0).replaceAllUsesWith(make(half, reader));
        reader->erase();
      } else {
        read->set(make(type, reader));
      }
    }
    if (wantsRemarks(func) && !made.empty())
      remark::passed(made.begin()->second.getLoc(),
                     nameDecision("quantize", "HeldInBlocks", func))
          << "'" + state.getSymName().str() + "' is held in blocks of " +
                 fsdp::getName(told.getForm())
          << remark::reason("{0}", "quantize's modules name it");
    return success();
  }

  /// A cast from f32 to a half type: the product of code and scale, which is an
  /// f32, is rounded once either way.
  static bool isHalving(Operation *op, RankedTensorType from) {
    if (!from.getElementType().isF32() || !aten::isPlainCast(op))
      return false;
    auto to = cast<RankedTensorType>(op->getResult(0).getType());
    return !to.getEncoding() &&
           (to.getElementType().isBF16() || to.getElementType().isF16());
  }

  static void setTypes(func::FuncOp func) {
    Block &body = func.getBody().front();
    func.setFunctionType(
        FunctionType::get(func.getContext(), body.getArgumentTypes(),
                          body.getTerminator()->getOperandTypes()));
  }

  static constexpr llvm::StringLiteral kChosen = "chosen";

  QuantizeAttr told;
  llvm::StringMap<StringRef> classes; ///< of modules, by path
  llvm::StringSet<> starts;           ///< what adapters began with
  llvm::StringSet<> skipped;          ///< patterns of `skip` that match
  CastList casts;
};

} // namespace
