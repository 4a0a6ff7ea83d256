//===- Explain.cpp - What a model holds and what it would cost ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/explain/Explain.h"

#include "ir/capture/request/PrecisionAttr.h"
#include "passes/plan/MemoryUse.h"
#include "support/Format.h"
#include "support/Table.h"
#include "tools/fsdp-opt/compile/Compile.h"
#include "tools/fsdp-opt/compile/ConfigNotes.h"
#include "tools/fsdp-opt/compile/DataInputs.h"
#include "tools/fsdp-opt/compile/Mode.h"
#include "tools/fsdp-opt/compile/Program.h"
#include "tools/fsdp-opt/explain/Fit.h"
#include "tools/fsdp-opt/explain/Ranks.h"
#include "tools/fsdp-opt/explain/Summary.h"
#include "tools/fsdp-opt/explain/Worlds.h"
#include "tools/fsdp-opt/input/CaptureLoader.h"
#include "tools/fsdp-opt/input/Files.h"
#include "tools/fsdp-opt/predict/ConfigFile.h"
#include "tools/fsdp-opt/predict/Predicted.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using namespace fsdp;
using namespace mlir;

namespace {
/// The config, whose number of ranks is replaced later on.
LoadedConfig readShownConfig(const CommandLine &line) {
  if (line.config.empty())
    return LoadedConfig();
  try {
    return loadConfig(line, line.config, getShownWorld(line));
  } catch (const Error &error) {
    if (error.id() != ErrorId::ConfigMissingKey)
      throw;
    // A mesh that one rank cannot be says better what is missing.
    try {
      return loadConfig(line, line.config, 1);
    } catch (const Error &alone) {
      throw alone.id() == ErrorId::MeshMismatch ? error : alone;
    }
  }
}

void printParameters(const StatesSummary &states) {
  TextTable table;
  table.add({"parameters", "tensors", "elements", "size"});
  auto addRow = [&](const char *name, const TensorSum &sum) {
    if (sum.tensors)
      table.add({name, formatCount(sum.tensors), formatCount(sum.elements),
                 formatBytes(sum.bytes)});
  };
  addRow("trainable", states.trainable);
  addRow("frozen", states.frozen);
  addRow("buffers", states.buffers);
  addRow("constants", states.constants);
  llvm::outs() << table.print();
  for (const std::vector<std::string> &names : states.ties) {
    llvm::outs() << "  tied: ";
    llvm::interleave(names, llvm::outs(), " = ");
    llvm::outs() << '\n';
  }
  if (!states.missing.empty())
    llvm::outs() << "  no data: " << listMissing(states.missing)
                 << "; --weights or init rules give them values\n";
}

/// The dynamic dimensions, with what binds them.
void printDims(const CommandLine &line) {
  if (line.inputKind != InputKind::Model)
    return;
  std::vector<DynamicDim> dims =
      loadCaptureLibrary().dynamicDims(getCaptureOptions(line, nullptr));
  if (dims.empty())
    return;
  TextTable table;
  table.add({"dynamic dimension", "where", "exported for", "with", "here"});
  std::string command;
  for (const DynamicDim &dim : dims) {
    std::string bound;
    for (int64_t size : dim.bound)
      bound += (bound.empty() ? "" : ",") + std::to_string(size);
    table.add({dim.symbol, llvm::join(dim.places, ", "), dim.range,
               dim.exported ? std::to_string(*dim.exported) : "unknown",
               bound});
    // The place says more than the symbol, where it is the symbol.
    llvm::StringRef place = dim.places.front();
    command += " --dim=" + (place.contains(' ') ? dim.symbol : place.str()) +
               "=" + bound;
  }
  llvm::outs() << table.print() << "  compile with these sizes:" << command
               << "\n\n";
}

void printSuggestion(ModuleOp module, const CommandLine &line) {
  // The class of the outermost repeated modules is the layer.
  std::string layer;
  OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module->clone()));
  Config blocks;
  compileProgram(*copy, blocks, [](llvm::StringRef, ModuleOp) {});
  for (const BucketSummary &bucket : summarizeBuckets(*copy))
    if (!bucket.className.empty())
      layer = bucket.className;
  llvm::outs() << "\na config to start with (all keys: docs/Config.md)\n"
               << "  fsdp_version: 2\n"
               << "  mesh: {dp_shard: " << getShownWorld(line).value_or(8)
               << "}\n";
  if (!layer.empty() || !isForInference(module))
    llvm::outs() << "  fsdp_config:\n";
  if (!layer.empty())
    llvm::outs() << "    auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                 << "    transformer_layer_cls_to_wrap: " << layer << '\n';
  if (isForInference(module))
    llvm::outs() << "  mode: inference\n";
  else
    llvm::outs()
        << "    reshard_after_forward: true\n"
        << "  optimizer: {name: adamw, lr: 1.0e-3, weight_decay: 0.1}\n"
        << "  max_grad_norm: 1.0\n";
}

/// All that the model returns, and what of it the program keeps.
void printOutputs(ModuleOp module, llvm::ArrayRef<OutputSummary> outputs) {
  llvm::outs() << "\noutputs of a rank\n";
  // A program that was captured earlier has only those that were kept then.
  if (outputs.empty())
    for (const std::string &output : describeOutputs(module))
      llvm::outs() << "  " << output << '\n';
  for (const OutputSummary &output : outputs) {
    llvm::outs() << "  " << output.name << ": " << output.dtype << "[";
    llvm::interleave(output.shape, llvm::outs(), ",");
    llvm::outs() << "]" << (output.isKept ? "" : ", not kept without --output=")
                 << (output.isKept ? "" : output.name) << '\n';
  }
}

/// The casts that mixed precision puts in, equal ones counted.
void printCasts(ModuleOp module) {
  std::vector<CastSummary> casts = summarizeCasts(module);
  std::string precision = getPrecision(module).describe();
  if (precision.empty())
    return;
  llvm::outs() << "\nmixed precision (" << precision << ")\n";
  TextTable table;
  table.add({"casts of", "from", "to", "count"});
  for (const CastSummary &cast : casts)
    table.add({cast.what, cast.from, cast.to, formatCount(cast.count)});
  llvm::outs() << table.print();
}

/// What calls of attention became.
void printAttention(ModuleOp module) {
  std::vector<AttentionSummary> calls = summarizeAttention(module);
  if (calls.empty())
    return;
  llvm::outs() << "\nattention\n";
  TextTable table;
  table.add({"calls", "first in", "fused kernel", "the mask"});
  for (const AttentionSummary &call : calls)
    table.add({formatCount(call.count), call.module, call.kernel, call.mask});
  llvm::outs() << table.print();
}

/// Everything that keeps the model from being captured.
std::vector<CaptureProblem> findProblems(MLIRContext &context,
                                         const CommandLine &line,
                                         const Config *config,
                                         OwningOpRef<ModuleOp> &module,
                                         std::vector<OutputSummary> &outputs) {
  std::vector<CaptureProblem> problems;
  if (line.inputKind == InputKind::Model)
    problems =
        loadCaptureLibrary().unsupported(getCaptureOptions(line, config));
  if (!problems.empty())
    return problems;
  try {
    module = readProgram(context, line, config, &outputs);
  } catch (const Error &error) {
    // Not what was asked for, but the model.
    if (line.inputKind != InputKind::Model ||
        getErrorInfo(error.id()).exitStatus != 1)
      throw;
    problems.push_back({error.id(), error.what()});
  }
  return problems;
}

/// Those that differ in numbers of layers alone share a line.
void printProblems(llvm::ArrayRef<CaptureProblem> problems) {
  std::vector<std::string> texts;
  std::map<std::string, std::vector<size_t>> alike;
  for (const CaptureProblem &problem : problems) {
    texts.push_back(Error(problem.id, problem.message).format());
    alike[maskNumbers(texts.back())].push_back(texts.size() - 1);
  }
  llvm::outs() << "not supported (" << problems.size() << ")\n";
  for (size_t i = 0; i < texts.size(); ++i) {
    std::string masked = maskNumbers(texts[i]);
    const std::vector<size_t> &group = alike[masked];
    if (group.front() != i)
      continue;
    if (group.size() == 1)
      llvm::outs() << "  " << texts[i] << '\n';
    else
      llvm::outs() << "  " << group.size() << " x " << masked << '\n';
  }
}

void printClasses(ModuleOp module) {
  llvm::outs() << "\nclasses of modules\n";
  for (const auto &[name, count] : countClasses(module))
    llvm::outs() << "  " << count << " x " << name << '\n';
}

void printInputs(ModuleOp module) {
  llvm::outs() << "\ninputs of a rank\n";
  for (const std::string &input : describeInputs(module))
    llvm::outs() << "  " << input << '\n';
}

/// Of a model that was captured.
void printUnread(ModuleOp module) {
  for (const std::string &name : listUnread(module))
    llvm::outs() << "  read by nothing: " << name << '\n';
}

/// What can be said of a model that cannot be captured.
void printDescription(MLIRContext &context, const CommandLine &line,
                      const Config &config) {
  OwningOpRef<ModuleOp> module;
  try {
    module = loadCaptureLibrary().describe(
        context,
        getCaptureOptions(line, line.config.empty() ? nullptr : &config));
  } catch (const Error &) {
    // It is among the problems.
  }
  if (!module)
    return;
  printDims(line);
  printParameters(summarizeStates(*module));
  printInputs(*module);
  printClasses(*module);
  assignBuckets(*module, config);
  llvm::outs() << '\n';
  printBuckets(summarizeBuckets(*module));
  llvm::outs() << '\n';
}
} // namespace

int fsdp::explain(MLIRContext &context, const CommandLine &line) {
  LoadedConfig loaded = readShownConfig(line);
  addConfigNotes(loaded, line.verbose);
  const Config &config = loaded.config;
  std::optional<Cluster> cluster; // better refused now than after the work
  if (!config.cluster.empty())
    cluster = loadCluster(config, line.measured);
  else if (!line.measured.empty())
    throw Error(ErrorId::BadUsage,
                "--measured has times for a prediction, and nothing says of "
                "what; add --cluster, such as --cluster=h100x8");
  OwningOpRef<ModuleOp> module;
  std::vector<OutputSummary> outputs;
  std::vector<CaptureProblem> problems = findProblems(
      context, line, line.config.empty() ? nullptr : &config, module, outputs);
  if (!problems.empty()) {
    const CaptureProblem &first = problems.front();
    llvm::errs() << Error(first.id, first.message).format() << '\n';
    llvm::outs() << line.input << '\n';
    printDescription(context, line, config);
    printProblems(problems);
    return getErrorInfo(first.id).exitStatus;
  }

  if (!line.config.empty())
    checkMode(*module, config);
  compareStatedSizes(*module, loaded);
  addModeNotes(*module, line.config.empty() ? nullptr : &config);
  warnOfUnread(*module);
  llvm::outs() << line.input << '\n';
  printDims(line);
  printParameters(summarizeStates(*module));
  printInputs(*module);
  printUnread(*module);
  printOutputs(*module, outputs);
  printCasts(*module);
  printAttention(*module);
  printClasses(*module);
  llvm::outs() << "\nnot supported: nothing\n\n";
  if (std::string ranks = drawRanks(config); !ranks.empty())
    llvm::outs() << ranks << '\n';
  printWorlds(*module, config, line);
  if (cluster) {
    int64_t ranks = config.getWorldSize();
    llvm::outs() << "\nwhat makes it fit on " << cluster->name << ", with "
                 << ranks << (ranks == 1 ? " rank\n" : " ranks\n");
    llvm::outs() << printFit(*module, config, *cluster);
  }
  if (line.config.empty())
    printSuggestion(*module, line);
  return 0;
}
