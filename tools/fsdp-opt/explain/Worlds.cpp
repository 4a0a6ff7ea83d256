//===- Worlds.cpp - What ranks hold, by their number ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/explain/Worlds.h"

#include "passes/emit/MemoryReport.h"
#include "passes/emit/Report.h"
#include "passes/plan/MemoryUse.h"
#include "support/Format.h"
#include "support/Table.h"
#include "tools/fsdp-opt/compile/Compile.h"
#include "tools/fsdp-opt/compile/Mode.h"
#include "tools/fsdp-opt/compile/Program.h"
#include "tools/fsdp-opt/config/Names.h"
#include "tools/fsdp-opt/explain/Schedule.h"
#include "tools/fsdp-opt/explain/Splits.h"
#include "tools/fsdp-opt/explain/Syncs.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <set>
#include <utility>

using namespace fsdp;
using namespace mlir;

std::optional<int64_t> fsdp::getShownWorld(const CommandLine &line) {
  return line.planWorlds.empty() ? line.world : line.planWorlds.back();
}

void fsdp::printBuckets(llvm::ArrayRef<BucketSummary> buckets) {
  TextTable table;
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

namespace {
constexpr int64_t kWorlds[] = {1, 2, 4, 8, 16, 32, 64};

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

/// What compiles of one module for several world sizes say.
class WorldTables {
public:
  WorldTables();
  /// Rows of a module that was compiled for so many ranks.
  void add(int64_t world, ModuleOp module);
  void print(const Config &config) const;

private:
  TextTable peaks{{"ranks", "above", "highest use"}};
  TextTable table;
  TextTable host{
      {"ranks", "peak", "parameters", "optimizer", "gradients", "activations"}};
  MemoryUse scratch; ///< as good as the same for all
};

/// Kinds of collectives, and heads of their columns.
constexpr std::pair<const char *, const char *> kMoved[] = {
    {"all_gather", "all-gathers"},
    {"reduce_scatter", "reduce-scatters"},
    {"all_to_all", "all-to-alls"},
    {"all_reduce", "all-reduces"},
    {"rotate", "rotations"}};

WorldTables::WorldTables() {
  std::vector<std::string> head{"ranks",     "peak",       "parameters",
                                "optimizer", "buffers",    "gathered",
                                "gradients", "activations"};
  for (auto [kind, name] : kMoved)
    head.push_back(name);
  table.add(std::move(head));
}

void WorldTables::add(int64_t world, ModuleOp module) {
  llvm::json::Value report = buildReport(module);
  MemoryUse use = *MemoryUse::fromAttribute(module);
  scratch = use;
  std::vector<std::string> row{
      std::to_string(world),
      formatBytes(use.peak),
      formatBytes(use.params),
      formatBytes(use.optimizer),
      formatBytes(use.buffers),
      formatBytes(use.transient.gathered),
      formatBytes(use.transient.grads),
      formatBytes(use.transient.activations + use.transient.inputs)};
  for (auto [kind, name] : kMoved)
    row.push_back(sumTransfers(report, kind).describe());
  table.add(std::move(row));
  if (use.host)
    host.add({std::to_string(world), formatBytes(use.host->peak),
              formatBytes(use.host->params), formatBytes(use.host->optimizer),
              formatBytes(use.host->transient.grads),
              formatBytes(use.host->transient.activations)});
  SmallVector<ProgramUse, 0> uses = getProgramUses(module);
  const ProgramUse &largest = getLargest(uses);
  peaks.add({std::to_string(world),
             llvm::formatv("{0:P2}", largest.getRatio() - 1).str(),
             printPoint(largest.peak)});
}

void WorldTables::print(const Config &config) const {
  // What few steps move has a column where one does.
  TextTable shown = table;
  for (const char *rare : {"all-to-alls", "rotations"})
    shown.dropIfAll(rare, "0");
  llvm::outs() << shown.print()
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
}

/// Buckets and the rest that does not depend on the number of ranks, and what
/// the tables are of.
void printShared(ModuleOp compiled, const Config &config) {
  printBuckets(summarizeBuckets(compiled));
  llvm::outs() << listSplits(compiled) << listSyncs(compiled);
  if (auto adapters = compiled->getAttrOfType<ArrayAttr>(kAdaptersAttr))
    llvm::outs() << "\n"
                 << adapters.size()
                 << (adapters.size() == 1 ? " adapter" : " adapters")
                 << " that --export-merged merges\n";
  llvm::outs() << "\nmemory of a rank and transfers of a step, ";
  if (isForInference(compiled))
    llvm::outs() << "for inference\n";
  else
    llvm::outs() << "with " << StringRef(getFacts(config.optimizer.kind).name)
                 << describeStates(config.optimizer) << " and "
                 << describeReshard(config) << '\n';
}
} // namespace

void fsdp::printWorlds(ModuleOp module, Config config,
                       const CommandLine &line) {
  std::set<int64_t> worlds(std::begin(kWorlds), std::end(kWorlds));
  if (!line.planWorlds.empty())
    worlds = {line.planWorlds.begin(), line.planWorlds.end()};
  else if (line.world)
    worlds.insert(*line.world);
  if (!line.config.empty())
    worlds.insert(config.getWorldSize());

  WorldTables tables;
  bool first = true;
  std::string schedule;
  // Where one transfer runs beside what does not depend on the number of ranks.
  int64_t shown = getShownWorld(line).value_or(
      line.config.empty() ? 8 : config.getWorldSize());
  for (int64_t world : worlds) {
    if (!config.setWorldSize(world))
      continue;
    OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module->clone()));
    compileProgram(*copy, config, [](llvm::StringRef, ModuleOp) {});
    if (std::exchange(first, false))
      printShared(*copy, config);
    tables.add(world, *copy);
    if (world == shown)
      schedule = printSchedule(*copy);
  }
  tables.print(config);
  if (!schedule.empty())
    llvm::outs() << "\nschedule with " << shown << " ranks\n" << schedule;
}
