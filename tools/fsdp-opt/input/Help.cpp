//===- Help.cpp - What --help prints ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/input/Help.h"

#include "tools/fsdp-opt/input/OptionChecks.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>

using namespace fsdp;

/// Columns of options, and of what is said of them.
static constexpr size_t kIndent = 26, kWidth = 58;

static constexpr const char *kUsage =
    R"(fsdp-opt: compiles an exported PyTorch model into a fully sharded training step

usage: fsdp-opt MODEL.{pt2,pt,mlir,mlirbc} [options] [passes] -o OUT.{fsdp,mlir,mlirbc}
       fsdp-opt MODEL --explain
       fsdp-opt STEP.fsdp -o -
       fsdp-opt STEP.fsdp --print-plan --cluster=NAME

  A model is exported in one line of Python; its first output is the loss
  (or what --loss names):
      torch.export.save(torch.export.export(model, args), "model.pt2")

options
)";

static constexpr const char *kExamples = R"(  --help, --version
  --help-list             also every pass and every option of MLIR

  Without --config a model is only captured. With passes (--cse,
  --fsdp-shard-pipeline, …) fsdp-opt behaves like mlir-opt, whose options it has:
  --mlir-print-ir-after-all, --verify-roundtrip, --mlir-timing, …

examples
  fsdp-opt model.pt2 --explain
  fsdp-opt model.pt2 --config=fsdp.yaml --world=8 -o step.fsdp
  fsdp-opt model.pt2 --config=fsdp.yaml --world=1,2,4,8 -o step.fsdp
  fsdp-opt model.pt2 --config=fsdp.yaml --save-stages=stages --report=step.json -o step.fsdp
  fsdp-opt traced.pt --input=x:f32[4,64] --config=fsdp.yaml -o step.fsdp
  fsdp-opt model.pt2 --output=logits --config=fsdp.yaml -o step.fsdp
  fsdp-opt model.pt2 -o captured.mlir
  fsdp-opt captured.mlir --config=fsdp.yaml --world=4 -o planned.mlir
  fsdp-opt captured.mlir --canonicalize --cse -o -
  fsdp-opt planned.mlir --memory-map=step.html -o step.fsdp
  fsdp-opt step.fsdp -o -
  fsdp-opt step.fsdp --print-plan=step.html --cluster=h100x8

exit status
  0 done, 1 the input is refused, 2 usage or config. Errors start with
  error[fsdp-E…]; docs/Errors.md lists them.
)";

/// As lines of words; a line of `text` begins one.
static std::string wrap(llvm::StringRef text) {
  std::string all;
  llvm::SmallVector<llvm::StringRef> lines, words;
  text.split(lines, '\n');
  for (llvm::StringRef line : lines) {
    words.clear();
    line.split(words, ' ');
    size_t used = 0;
    if (!all.empty())
      all += "\n" + std::string(kIndent, ' ');
    for (llvm::StringRef word : words) {
      if (used != 0 && used + 1 + word.size() > kWidth) {
        all += "\n" + std::string(kIndent, ' ');
        used = 0;
      }
      all += (used == 0 ? "" : " ") + word.str();
      used += (used == 0 ? 0 : 1) + word.size();
    }
  }
  return all;
}

std::string fsdp::getHelp() {
  std::string text = kUsage;
  for (const OptionRow &row : listOptions()) {
    std::string name = "  " + std::string(row.name.size() == 1 ? "-" : "--") +
                       std::string(row.name) +
                       (row.name.size() == 1 ? " " : "") +
                       std::string(row.value);
    name.resize(std::max(name.size() + 1, kIndent), ' ');
    text += name + wrap(row.help) + "\n";
  }
  return text + kExamples;
}
