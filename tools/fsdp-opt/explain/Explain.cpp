//===- Explain.cpp - What a model holds and what it would cost ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/explain/Explain.h"

#include "ir/capture/request/PrecisionAttr.h"
#include "passes/emit/MemoryReport.h"
#include "passes/emit/Report.h"
#include "passes/plan/MemoryUse.h"
#include "support/Format.h"
#include "support/Table.h"
#include "tools/fsdp-opt/compile/Compile.h"
#include "tools/fsdp-opt/compile/ConfigNotes.h"
#include "tools/fsdp-opt/compile/DataInputs.h"
#include "tools/fsdp-opt/compile/Mode.h"
#include "tools/fsdp-opt/compile/Program.h"
#include "tools/fsdp-opt/config/Names.h"
#include "tools/fsdp-opt/explain/Fit.h"
#include "tools/fsdp-opt/explain/Ranks.h"
#include "tools/fsdp-opt/explain/Schedule.h"
#include "tools/fsdp-opt/explain/Splits.h"
#include "tools/fsdp-opt/explain/Summary.h"
#include "tools/fsdp-opt/explain/Syncs.h"
#include "tools/fsdp-opt/input/CaptureLoader.h"
#include "tools/fsdp-opt/input/Files.h"
#include "tools/fsdp-opt/predict/Predicted.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

using namespace fsdp;
using namespace mlir;

namespace {
constexpr int64_t kWorlds[] = {1, 2, 4, 8, 16, 32, 64};

/// Where one number of ranks is shown, the greatest that was named.
std::optional<int64_t> getShownWorld(const CommandLine &line) {
  return line.planWorlds.empty() ? line.world : line.planWorlds.back();
}

/// The config, whose number of ranks is replaced later on.
LoadedConfig readConfig(const CommandLine &line) {
  if (line.config.empty())
    return LoadedConfig();
  std::string text = readInput(line.config, "the config", kMaxConfigBytes);
  try {
    return parseConfig(text, line.config, getShownWorld(line));
  } catch (const Error &error) {
    if (error.id() != ErrorId::ConfigMissingKey)
      throw;
    // A mesh that one rank cannot be says better what is missing.
    try {
      return parseConfig(text, line.config, 1);
    } catch (const Error &alone) {
      throw alone.id() == ErrorId::MeshMismatch ? error : alone;
    }
  }
}

void printParameters(const StatesSummary &states) {
  Table table;
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

/// Consecutive buckets that differ in their name alone share a row.
void printBuckets(llvm::ArrayRef<BucketSummary> buckets) {
  Table table;
  table.add({"bucket", "class", "tensors", "elements", "size"});
  for (size_t i = 0; i < buckets.size();) {
    const BucketSummary &first = buckets[i];
    size_t end = i + 1;
    while (end < buckets.size() && buckets[end].className == first.className &&
           buckets[end].sum.tensors == first.sum.tensors &&
           buckets[end].sum.bytes == first.sum.bytes)
      ++end;
    std::string name = first.name;
    if (end - i > 1)
      name += " … " + buckets[end - 1].name + ", each of " +
              std::to_string(end - i);
    table.add({name, first.className, formatCount(first.sum.tensors),
               formatCount(first.sum.elements), formatBytes(first.sum.bytes)});
    i = end;
  }
  llvm::outs() << table.print();
}

struct Transfers {
  int64_t count = 0, bytes = 0;

  std::string describe() const {
    return std::to_string(count) +
           (count ? " (" + formatBytes(bytes) + ")" : "");
  }
};

/// The collectives of a step that are of that kind in the report.
Transfers sumTransfers(const llvm::json::Value &report, llvm::StringRef kind) {
  Transfers sum;
  for (const llvm::json::Value &row :
       *report.getAsObject()->getArray("collectives")) {
    const llvm::json::Object &transfer = *row.getAsObject();
    if (transfer.getString("kind") == kind) {
      int64_t count = *transfer.getInteger("count");
      sum.count += count;
      sum.bytes += count * *transfer.getInteger("bytes");
    }
  }
  return sum;
}

std::string describeReshard(const Config &config) {
  switch (config.reshard) {
  case Reshard::All:
    if (config.reshardRanks > 1)
      return "reshard_after_forward: " + std::to_string(config.reshardRanks);
    return "reshard_after_forward: true";
  case Reshard::AllButRoot:
    return "the default of reshard_after_forward (all but the root bucket)";
  case Reshard::None:
    return "reshard_after_forward: false";
  }
  llvm_unreachable("all modes are described");
}

/// What the optimizer's states are stored as, if that is said.
std::string describeStates(const OptimizerConfig &optimizer) {
  for (const auto &[name, choice] : getNames<StateChoice>())
    if (optimizer.stateDType == choice)
      return ", its states as " + std::string(name) + ",";
  return "";
}

/// What is known of temporaries, in brackets.
std::string describeScratch(const MemoryUse &use) {
  if (!use.scratchBound)
    return "(unknown until a run's warm-up)";
  if (use.scratchUnknown.empty())
    return "(--report bounds them)";
  return "(" + formatBytes(static_cast<uint64_t>(*use.scratchBound)) +
         ", and what is unknown until a run's warm-up of " +
         llvm::join(use.scratchUnknown, ", ") + ")";
}

/// Compiles copies for several world sizes. Prints the buckets before the table
/// of sizes, since they do not depend on the number of ranks.
void printWorlds(ModuleOp module, Config config, const CommandLine &line) {
  std::set<int64_t> worlds(std::begin(kWorlds), std::end(kWorlds));
  if (!line.planWorlds.empty())
    worlds = {line.planWorlds.begin(), line.planWorlds.end()};
  else if (line.world)
    worlds.insert(*line.world);
  if (!line.config.empty())
    worlds.insert(config.getWorldSize());

  Table peaks;
  peaks.add({"ranks", "above", "highest use"});
  Table table;
  table.add({"ranks", "peak", "parameters", "optimizer", "buffers", "gathered",
             "gradients", "activations", "all-gathers", "reduce-scatters",
             "all-reduces"});
  Table host;
  host.add(
      {"ranks", "peak", "parameters", "optimizer", "gradients", "activations"});
  bool first = true;
  std::string schedule;
  MemoryUse scratch; // as good as the same for all
  // Where one transfer runs beside what does not depend on the number of ranks.
  int64_t shown = getShownWorld(line).value_or(
      line.config.empty() ? 8 : config.getWorldSize());
  for (int64_t world : worlds) {
    if (!config.setWorldSize(world))
      continue;
    OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module->clone()));
    compileProgram(*copy, config, [](llvm::StringRef, ModuleOp) {});
    if (std::exchange(first, false)) {
      printBuckets(summarizeBuckets(*copy));
      llvm::outs() << listSplits(*copy) << listSyncs(*copy);
      if (auto adapters = (*copy)->getAttrOfType<ArrayAttr>(kAdaptersAttr))
        llvm::outs() << "\n"
                     << adapters.size()
                     << (adapters.size() == 1 ? " adapter" : " adapters")
                     << " that --export-merged merges\n";
      llvm::outs() << "\nmemory of a rank and transfers of a step, ";
      if (isForInference(module))
        llvm::outs() << "for inference\n";
      else
        llvm::outs() << "with "
                     << StringRef(getFacts(config.optimizer.kind).name)
                     << describeStates(config.optimizer) << " and "
                     << describeReshard(config) << '\n';
    }
    llvm::json::Value report = buildReport(*copy);
    Transfers gathers = sumTransfers(report, "all_gather");
    Transfers scatters = sumTransfers(report, "reduce_scatter");
    Transfers reductions = sumTransfers(report, "all_reduce");
    MemoryUse use = *MemoryUse::fromAttribute(*copy);
    scratch = use;
    table.add({std::to_string(world), formatBytes(use.peak),
               formatBytes(use.params), formatBytes(use.optimizer),
               formatBytes(use.buffers), formatBytes(use.transient.gathered),
               formatBytes(use.transient.grads),
               formatBytes(use.transient.activations + use.transient.inputs),
               gathers.describe(), scatters.describe(), reductions.describe()});
    if (use.host)
      host.add({std::to_string(world), formatBytes(use.host->peak),
                formatBytes(use.host->params), formatBytes(use.host->optimizer),
                formatBytes(use.host->transient.grads),
                formatBytes(use.host->transient.activations)});
    if (world == shown)
      schedule = printSchedule(*copy);
    SmallVector<ProgramUse, 0> uses = getProgramUses(*copy);
    const ProgramUse &largest = getLargest(uses);
    peaks.add({std::to_string(world),
               llvm::formatv("{0:P2}", largest.getRatio() - 1).str(),
               printPoint(largest.peak)});
  }
  llvm::outs() << table.print()
               << "  Parts of the transient memory are those at the moment of "
                  "its highest use;\n  temporaries of operators come on top "
               << describeScratch(scratch) << ".\n";
  if (config.offloadParams || config.offloadOptimizer)
    llvm::outs() << "\nbeside it, in the host's memory\n" << host.print();
  llvm::outs()
      << "\nwhere that is, and how far the "
         "peak is above the bytes in use then\n"
      << peaks.print()
      << "  --memory-map=FILE.html draws it for one number of ranks.\n";
  if (!schedule.empty())
    llvm::outs() << "\nschedule with " << shown << " ranks\n" << schedule;
}

/// The dynamic dimensions, with what binds them.
void printDims(const CommandLine &line) {
  if (line.inputKind != InputKind::Model)
    return;
  std::vector<DynamicDim> dims =
      loadCaptureLibrary().dynamicDims(getCaptureOptions(line, nullptr));
  if (dims.empty())
    return;
  Table table;
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
  Table table;
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
  Table table;
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
  LoadedConfig loaded = readConfig(line);
  addConfigNotes(loaded, line.verbose);
  if (!line.cluster.empty())
    loaded.config.cluster = line.cluster;
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
