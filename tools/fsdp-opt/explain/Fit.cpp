//===- Fit.cpp - Whether a step fits, and what makes it fit ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/explain/Fit.h"

#include "support/Error.h"
#include "support/Format.h"
#include "support/Table.h"
#include "tools/fsdp-opt/auto/AutoSchedule.h"
#include "tools/fsdp-opt/auto/Budget.h"
#include "tools/fsdp-opt/auto/Choices.h"
#include "tools/fsdp-opt/auto/NarrowTypes.h"
#include "tools/fsdp-opt/compile/Mode.h"
#include "tools/fsdp-opt/predict/Predicted.h"

#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <vector>

#include <unistd.h>

using namespace fsdp;
using namespace mlir;

namespace {

/// Times the config's ranks.
constexpr int64_t kMoreRanks[] = {2, 4, 8};

/// A row of the table before it is compiled.
struct Mechanism {
  std::string name;
  Config config;
  bool decides = false; ///< by `schedule: auto`
};

/// And behind it.
struct Row {
  std::string name;
  std::optional<Prediction> prediction; ///< none: it cannot be compiled
  std::string why;                      ///< not, or what was decided
  bool fits = false;
};

class FitTable {
public:
  /// All rows are of the types that are decided for `config`.
  FitTable(ModuleOp module, const Config &config, const Cluster &cluster)
      : module(module), types(decideTypes(module, config, cluster)),
        given(types.config), cluster(cluster) {}

  std::string print();

private:
  std::vector<Mechanism> listMechanisms() const;
  void addMechanisms(const Config &base, const std::string &with,
                     std::vector<Mechanism> &all) const;
  Row predictRow(const Mechanism &mechanism) const;
  void addMoreRanks(const Config &base, const std::string &with);
  void showProgress(const std::string &name) const;
  std::string printVerdict() const;

  ModuleOp module;
  const DecidedTypes types;
  const Config &given;
  const Cluster &cluster;
  std::vector<Row> rows;
};

/// Each alone beside `base`, then all of them.
void FitTable::addMechanisms(const Config &base, const std::string &with,
                             std::vector<Mechanism> &all) const {
  Config everything = base;
  std::string names = with;
  int count = 0;
  auto add = [&](const char *name, const Change &change, bool joins) {
    std::optional<Config> changed = withChange(base, change, cluster);
    if (!changed)
      return;
    all.push_back({with + name, std::move(*changed)});
    std::optional<Config> joined = withChange(everything, change, cluster);
    if (!joins || !joined)
      return;
    everything = std::move(*joined);
    names += (count++ == 0 ? "" : ", ") + std::string(name);
  };
  add("selective recomputation", kSelective, false);
  add("full recomputation", kFull, true);
  add("the loss in chunks", kChunks, true);
  // What is computed again need not wait anywhere.
  add("activations on the host", kActivationsOnHost, false);
  add("the optimizer on the host", kOptimizerOnHost, true);
  add("parameters and the optimizer on the host", kParamsOnHost, false);
  if (count > 1)
    all.push_back({names, std::move(everything)});
}

std::vector<Mechanism> FitTable::listMechanisms() const {
  std::vector<Mechanism> all;
  Config base = given;
  base.planner = Planner::Default;
  if (isForInference(module)) {
    all.push_back({"the config", base});
    return all;
  }
  if (says(given, "fsdp_config.reshard_after_forward")) {
    all.push_back({"the config", base});
    addMechanisms(base, "", all);
  } else {
    Mechanism none{"nothing", base};
    none.config.reshard = Reshard::None;
    all.push_back(std::move(none));
    base.reshard = Reshard::All;
    all.push_back({"resharding", base});
    addMechanisms(base, "resharding, ", all);
  }
  return all;
}

/// Only for people: what is redirected has the table alone.
void FitTable::showProgress(const std::string &name) const {
  if (isatty(STDERR_FILENO))
    llvm::errs() << "predicting row " << rows.size() + 1 << ": " << name
                 << "\n";
}

Row FitTable::predictRow(const Mechanism &mechanism) const {
  showProgress(mechanism.name);
  Row row{mechanism.name, std::nullopt, "", false};
  try {
    Predicted predicted =
        mechanism.decides ? predictDecided(module, mechanism.config, cluster)
                          : predict(module, mechanism.config, cluster);
    row.fits = predicted.prediction.held() <=
               getBudget(mechanism.config, predicted.prediction);
    row.prediction = std::move(predicted.prediction);
  } catch (const Error &error) {
    // Of a table of possibilities one may be none; the config itself is.
    if (rows.empty() || (error.id() != ErrorId::StageRefused &&
                         error.id() != ErrorId::BudgetTooSmall))
      throw;
    row.why = llvm::StringRef(error.what()).split('\n').first.str();
  }
  return row;
}

/// Until it fits: twice the ranks, and twice those.
void FitTable::addMoreRanks(const Config &base, const std::string &with) {
  for (int64_t times : kMoreRanks) {
    Mechanism mechanism{with + std::to_string(times) + " times the ranks",
                        base};
    mechanism.config.dpShard *= times;
    rows.push_back(predictRow(mechanism));
    if (rows.back().fits)
      return;
  }
}

/// What makes it fit for the least time, among the given number of ranks and
/// among all.
std::string FitTable::printVerdict() const {
  const Row &first = rows.front();
  std::string all =
      formatBytes(getBudget(given, *first.prediction)) +
      (given.memoryBudget ? " that memory_budget allows" : " of the device");
  if (first.fits)
    return "  It fits: " + formatBytes(first.prediction->held()) + " of the " +
           all + ", with " + first.name + ".\n";
  const Row *best = nullptr, *ranks = nullptr;
  for (const Row &row : rows) {
    if (!row.fits)
      continue;
    bool hasMoreRanks = row.prediction->ranks != first.prediction->ranks;
    const Row *&least = hasMoreRanks ? ranks : best;
    if (!least || row.prediction->seconds < least->prediction->seconds)
      least = &row;
  }
  std::string text = "  With " + first.name + " it does not fit: " +
                     formatBytes(first.prediction->held()) + " of the " + all +
                     ".\n";
  if (best)
    text += "  The cheapest row that fits is '" + best->name + "', " +
            formatMilliseconds(best->prediction->seconds) + " ms a step.\n";
  else
    text += "  Nothing makes it fit on so many ranks.\n";
  if (ranks)
    text += "  With " + formatCount(ranks->prediction->ranks) +
            " ranks it fits as well ('" + ranks->name + "'), " +
            formatMilliseconds(ranks->prediction->seconds) + " ms a step.\n";
  return text;
}

std::string FitTable::print() {
  std::vector<Mechanism> mechanisms = listMechanisms();
  for (const Mechanism &mechanism : mechanisms)
    rows.push_back(predictRow(mechanism));
  // The cheapest mechanism is what ranks are added to.
  const Mechanism &base = mechanisms[mechanisms.size() > 1 ? 1 : 0];
  bool isOpen = base.name == "resharding";
  addMoreRanks(isOpen ? base.config : mechanisms[0].config,
               isOpen ? "resharding, " : "");
  if (!isForInference(module)) {
    Config config = given;
    config.planner = Planner::Auto;
    rows.push_back(predictRow({"schedule: auto", config, true}));
  }
  TextTable table;
  bool hasTokens = rows.front().prediction->tokens > 0;
  std::vector<std::string> head{"with", "ranks",   "held", "on the host",
                                "fits", "step ms", "price"};
  if (hasTokens)
    head.push_back("tokens/s");
  table.add(std::move(head));
  std::string notes;
  for (const std::string &reason : types.reasons)
    notes += "  " + reason + "\n";
  double first = rows.front().prediction->seconds;
  for (const Row &row : rows) {
    if (!row.prediction) {
      std::vector<std::string> none{row.name, "-", "-", "-", "no", "-", "-"};
      if (hasTokens)
        none.push_back("-");
      table.add(std::move(none));
      notes += "  " + row.name + ": " + row.why + "\n";
      continue;
    }
    const Prediction &each = *row.prediction;
    double price = 100 * (each.seconds / first - 1);
    std::vector<std::string> cells{
        row.name,
        formatCount(each.ranks),
        formatBytes(each.held()),
        each.hostPlanned == 0 ? "-" : formatBytes(each.hostPlanned),
        row.fits ? "yes" : "no",
        formatMilliseconds(each.seconds),
        &row == &rows.front() || first == 0
            ? "-"
            : (price < 0 ? "" : "+") + formatFixed(price, 1) + " %"};
    if (hasTokens)
      cells.push_back(formatCount(int64_t(each.tokensPerSecond())));
    table.add(std::move(cells));
  }
  return table.print() + notes + printVerdict();
}

} // namespace

std::string fsdp::printFit(ModuleOp module, const Config &config,
                           const Cluster &cluster) {
  return FitTable(module, config, cluster).print();
}
