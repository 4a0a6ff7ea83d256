//===- Compare.cpp - Configs side by side ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/compare/Compare.h"

#include "support/Format.h"
#include "support/Table.h"
#include "tools/fsdp-opt/auto/AutoSchedule.h"
#include "tools/fsdp-opt/compile/FirstValues.h"
#include "tools/fsdp-opt/compile/Mode.h"
#include "tools/fsdp-opt/compile/Program.h"
#include "tools/fsdp-opt/input/Files.h"
#include "tools/fsdp-opt/predict/ConfigFile.h"
#include "tools/fsdp-opt/predict/Predicted.h"

#include "llvm/Support/FormatVariadic.h"

#include <functional>
#include <utility>

using namespace fsdp;
using namespace mlir;

namespace {

/// "+12.3 %" of what was there; empty where nothing was.
std::string change(double from, double to) {
  if (from == 0)
    return "";
  double percent = 100 * (to - from) / from;
  return llvm::formatv("{0}{1:F1} %", percent < 0 ? "" : "+", percent).str();
}

/// A captured program and what it is to be compiled with.
struct Input {
  LoadedConfig loaded;
  OwningOpRef<ModuleOp> module;
};

Input read(MLIRContext &context, const CommandLine &line,
           const std::string &path) {
  Input input;
  input.loaded = loadConfig(line, path, line.world);
  Config &config = input.loaded.config;
  input.module = readProgram(context, line, &config);
  checkMode(*input.module, config);
  resolveFirstValues(*input.module, config, line.weights);
  return input;
}

/// Bytes and number of the transfers of one kind, over a step.
std::pair<uint64_t, uint64_t> sum(const Prediction &prediction,
                                  llvm::StringRef kind) {
  uint64_t count = 0, bytes = 0;
  for (const PredictedProgram &program : prediction.programs)
    for (const PredictedTransfer &transfer : program.transfers)
      if (transfer.kind == kind) {
        count += program.runs;
        bytes += program.runs * transfer.bytes;
      }
  return {count, bytes};
}

std::string bytesText(double bytes) {
  return formatBytes(static_cast<uint64_t>(bytes));
}

/// Numbers of a prediction; without a text, whether it is so.
struct PredictionRow {
  const char *name;
  double (*number)(const Prediction &);
  std::string (*text)(double);
};
constexpr PredictionRow kRows[] = {
    {"step ms", [](const Prediction &p) { return p.seconds; },
     formatMilliseconds},
    {"kernels ms", [](const Prediction &p) { return p.compute; },
     formatMilliseconds},
    {"waiting for transfers ms", [](const Prediction &p) { return p.exposed; },
     formatMilliseconds},
    {"waiting for the host ms", [](const Prediction &p) { return p.idle; },
     formatMilliseconds},
    {"planned memory", [](const Prediction &p) { return double(p.planned); },
     bytesText},
    {"all that a rank holds",
     [](const Prediction &p) { return double(p.held()); }, bytesText},
    {"on the host", [](const Prediction &p) { return double(p.hostPlanned); },
     bytesText},
    {"fits", [](const Prediction &p) { return double(p.fits()); }, nullptr},
    {"bytes in collectives",
     [](const Prediction &p) { return double(p.wireBytes); }, bytesText},
};

} // namespace

std::string fsdp::compareConfigs(MLIRContext &context,
                                 const CommandLine &line) {
  std::vector<Prediction> all;
  std::vector<std::string> heads{""};
  for (const std::string &path : line.compared) {
    Input input = read(context, line, path);
    Cluster cluster = loadCluster(input.loaded.config, line.measured);
    all.push_back(
        predictDecided(*input.module, input.loaded.config, cluster).prediction);
    heads.push_back(path);
  }
  bool isPair = all.size() == 2;
  if (isPair)
    heads.push_back("change");

  TextTable table;
  table.add(heads);
  auto words = [&](const char *name,
                   const std::function<std::string(const Prediction &)> &text) {
    std::vector<std::string> row{name};
    for (const Prediction &each : all)
      row.push_back(text(each));
    table.add(std::move(row));
  };
  auto add = [&](const std::string &name,
                 const std::function<double(const Prediction &)> &number,
                 std::string (*text)(double)) {
    std::vector<std::string> row{name};
    for (const Prediction &each : all)
      row.push_back(text(number(each)));
    if (isPair)
      row.push_back(change(number(all[0]), number(all[1])));
    table.add(std::move(row));
  };
  words("cluster", [](const Prediction &p) { return p.cluster; });
  words("ranks", [](const Prediction &p) { return std::to_string(p.ranks); });
  if (llvm::any_of(all, [](const Prediction &p) { return p.tokens > 0; }))
    add(
        "tokens/s", [](const Prediction &p) { return p.tokensPerSecond(); },
        [](double number) { return formatCount(int64_t(number)); });
  for (const PredictionRow &row : kRows) {
    if (row.text)
      add(row.name, row.number, row.text);
    else
      words(row.name, [&](const Prediction &p) {
        return std::string(row.number(p) != 0 ? "yes" : "no");
      });
  }
  for (const char *kind : {"all_gather", "reduce_scatter", "all_reduce",
                           "rotate", "all_to_all", "upload", "download"}) {
    auto count = [kind](const Prediction &p) {
      return double(sum(p, kind).first);
    };
    if (llvm::any_of(all, [&](const Prediction &p) { return count(p) != 0; })) {
      add(std::string(kind) + " count", count,
          [](double number) { return formatCount(int64_t(number)); });
      add(
          std::string(kind) + " bytes",
          [kind](const Prediction &p) { return double(sum(p, kind).second); },
          bytesText);
    }
  }
  return "predicted, side by side\n" + table.print();
}

/// Parts of the cluster's bandwidth between nodes.
static constexpr double kBandwidths[] = {0.125, 0.25, 0.5, 1, 2, 4};

std::string fsdp::simulateWorlds(MLIRContext &context,
                                 const CommandLine &line) {
  Input input = read(context, line, line.config);
  const Config &given = input.loaded.config;
  Cluster cluster = loadCluster(given, line.measured);
  TextTable worlds, bandwidths;
  std::vector<std::string> columns{
      "ranks",       "nodes",   "step ms", "kernels ms", "exposed ms",
      "of the step", "planned", "held",    "fits",       "in collectives"};
  std::vector<std::string> head{"ranks"};
  for (double part : kBandwidths)
    head.push_back(
        llvm::formatv("{0:F1} GB/s", part * cluster.network.network / 1e9)
            .str());
  bandwidths.add(head);
  bool isFirst = true;
  for (int64_t world : line.worlds) {
    Config config = given;
    if (!config.setWorldSize(world))
      continue;
    Predicted compiled = predictDecided(*input.module, config, cluster);
    const Prediction &each = compiled.prediction;
    if (std::exchange(isFirst, false)) {
      if (each.tokens > 0)
        columns.push_back("tokens/s");
      worlds.add(columns);
    }
    std::vector<std::string> cells(
        {std::to_string(world), std::to_string(each.nodes),
         formatMilliseconds(each.seconds), formatMilliseconds(each.compute),
         formatMilliseconds(each.exposed),
         llvm::formatv("{0:F1} %",
                       each.seconds > 0 ? 100 * each.exposed / each.seconds : 0)
             .str(),
         formatBytes(each.planned), formatBytes(each.held()),
         each.fits() ? "yes" : "no", formatBytes(each.wireBytes)});
    if (each.tokens > 0)
      cells.push_back(formatCount(int64_t(each.tokensPerSecond())));
    worlds.add(std::move(cells));
    std::vector<std::string> row{std::to_string(world)};
    for (double part : kBandwidths) {
      Cluster other = cluster;
      other.network.network *= part;
      row.push_back(
          formatMilliseconds(simulate(compiled.file.plan(), other).seconds));
    }
    bandwidths.add(std::move(row));
  }
  return "predicted on " + cluster.name + "\n" + worlds.print() +
         "\nstep ms over the bandwidth of each rank to other nodes\n" +
         bandwidths.print();
}
