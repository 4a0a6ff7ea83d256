//===- ConfigNotes.cpp - What a config says beside its values -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/compile/ConfigNotes.h"

#include "passes/analysis/Programs.h"
#include "tools/fsdp-opt/compile/DataInputs.h"
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
