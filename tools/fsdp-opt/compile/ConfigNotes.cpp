//===- ConfigNotes.cpp - What a config says beside its values -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/compile/ConfigNotes.h"

#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/Programs.h"
#include "tools/fsdp-opt/compile/DataInputs.h"
#include "tools/fsdp-opt/compile/Mode.h"
#include "tools/fsdp-opt/input/Diagnostics.h"

using namespace fsdp;
using namespace mlir;

/// So many minor notes do not bury anything.
static constexpr size_t kFewNotes = 3;

void fsdp::addConfigNotes(const LoadedConfig &loaded, bool verbose) {
  for (const std::string &warning : loaded.warnings)
    addWarning("warning: " + warning);
  for (const std::string &note : loaded.notes)
    addNote("note: " + note);
  if (verbose || loaded.minor.size() <= kFewNotes) {
    for (const std::string &note : loaded.minor)
      addNote("note: " + note);
    return;
  }
  addNote("note: " + std::to_string(loaded.minor.size()) +
          " keys of other tools are taken under another name here, or change "
          "nothing; --verbose lists them");
}

/// Warns if none of `inputs` has `stated` at `dim`.
static void compare(const StatedSize &stated, unsigned dim,
                    llvm::StringRef what, ArrayRef<NamedInput> inputs) {
  auto fits = [&](const NamedInput &input) {
    return input.type.getDimSize(dim) == stated.size;
  };
  if (inputs.empty() || llvm::any_of(inputs, fits))
    return;
  int64_t exported = inputs.front().type.getDimSize(dim);
  addWarning("warning: " + stated.place + ": '" + stated.key + ": " +
             std::to_string(stated.size) +
             "' is not what the model was exported with: its input '" +
             inputs.front().name + "' has " + std::to_string(exported) + " " +
             what.str() + ", which is what is trained on; export it with " +
             std::to_string(stated.size) + ", or with a dynamic dimension");
}

void fsdp::compareStatedSizes(ModuleOp module, const LoadedConfig &loaded) {
  SmallVector<NamedInput> tokens, all;
  for (func::FuncOp program : getPrograms(module))
    for (const NamedInput &input : getNamedInputs(program)) {
      if (takesTokens(input.type))
        tokens.push_back(input);
      if (input.type.getRank() > 0)
        all.push_back(input);
    }
  if (loaded.tokens)
    compare(*loaded.tokens, 1, "tokens in a row", tokens);
  if (loaded.rows)
    compare(*loaded.rows, 0, "rows", tokens.empty() ? all : tokens);
}

/// "exp_avg and exp_avg_sq"; empty for an optimizer that keeps nothing.
static std::string describeMoments(const OptimizerConfig &optimizer) {
  const OptimizerFacts &facts = getFacts(optimizer.kind);
  auto keeps = [&](const OptimizerGroup *group) {
    return !facts.getMoments(optimizer.getNumbers(group)).empty();
  };
  if (!keeps(nullptr) && llvm::none_of(optimizer.groups, [&](auto &group) {
        return keeps(&group);
      }))
    return "";
  return llvm::join(facts.moments, " and ");
}

void fsdp::noteHalfStates(ModuleOp module, const Config &config) {
  std::string moments = describeMoments(config.optimizer);
  bool isSaid = config.optimizer.stateDType || moments.empty();
  if (isForInference(module) || (isSaid && !config.optimizer.holdsMasters))
    return;
  size_t trained = 0, half = 0, bfloat = 0;
  for (StateOp state : module.getOps<StateOp>()) {
    if (state.getRole() != Role::Parameter)
      continue;
    Type type = getElementTypeOrSelf(state.getType());
    ++trained;
    half += type.isF16() || type.isBF16();
    bfloat += type.isBF16();
  }
  auto isMaster = [](StateOp state) {
    return isParameter(state) && state.getModelElement();
  };
  if (config.optimizer.holdsMasters &&
      llvm::none_of(module.getOps<StateOp>(), isMaster))
    addNote("note: optimizer: {master_dtype: float32} changes nothing: no "
            "parameter that is trained has fewer bits");
  if (half == 0 || isSaid)
    return;
  std::string type = bfloat == half ? "bfloat16"
                     : bfloat == 0  ? "float16"
                                    : "bfloat16 or float16";
  std::string which =
      half == trained
          ? (half == 1 ? "the parameter is"
                       : "all " + std::to_string(half) + " parameters are")
          : std::to_string(half) + " of " + std::to_string(trained) +
                " parameters are";
  addNote(
      "note: " + which + " " + type +
      ", and so is what the optimizer keeps "
      "of them (" +
      moments +
      "), as in torch.optim: small updates of large numbers are lost. For "
      "both in float32 write optimizer: {master_dtype: float32}, for what it "
      "keeps alone optimizer: {state_dtype: float32}" +
      (bfloat != 0 && !config.optimizer.stochasticRounding
           ? "; optimizer: {stochastic_rounding: true} makes updates of "
             "bfloat16 right on average"
           : ""));
}
