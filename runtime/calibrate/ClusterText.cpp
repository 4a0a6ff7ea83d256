//===- ClusterText.cpp - Measurements as a cluster's file -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/calibrate/ClusterText.h"

#include "runtime/calibrate/Cases.h"

#include <algorithm>
#include <cstdio>

using namespace fsdp;

/// Bytes of an operator's sizes up to which a cache holds them, for kernels
/// that have no table.
static constexpr double kInCache = 1e6;

std::string fsdp::printNumber(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  // YAML's numbers have a point: 1e-06 is a string to some readers.
  std::string result = text;
  size_t e = result.find('e');
  if (e != std::string::npos && result.find('.') == std::string::npos)
    result.insert(e, ".0");
  return result;
}

static std::string list(const std::vector<double> &values) {
  std::string text;
  for (double value : values)
    text += (text.empty() ? "" : ", ") + printNumber(value);
  return "[" + text + "]";
}

/// The rows of a table, "[[64.0, 1.0e-06], …]".
std::string fsdp::printRows(const std::vector<Measured> &results,
                            const std::string &table) {
  std::string text;
  for (const Measured &each : results)
    if (each.table == table) {
      std::vector<double> row = each.at;
      row.push_back(each.value);
      text += (text.empty() ? "" : ", ") + list(row);
    }
  return "[" + text + "]";
}

namespace {

using Results = std::vector<Measured>;

double valueOf(const Results &results, const std::string &table) {
  for (const Measured &each : results)
    if (each.table == table && each.at.empty())
      return each.value;
  return 0;
}

/// The row whose size is next to `size`.
const Measured &rowOf(const Results &results, const std::string &table,
                      double size) {
  const Measured *found = nullptr;
  for (const Measured &each : results)
    if (each.table == table &&
        (!found || std::abs(each.at[0] - size) < std::abs(found->at[0] - size)))
      found = &each;
  return *found;
}

/// Operations a second of the fastest product.
double fastest(const Results &results) {
  double best = 1;
  for (const Measured &each : results)
    if (each.table == "products")
      best =
          std::max(best, 2 * each.at[0] * each.at[1] * each.at[2] / each.value);
  return best;
}

double callOf(const Results &results, const std::string &table) {
  double least = 1;
  for (const Measured &each : results)
    if (each.table == table)
      least = std::min(least, each.value);
  return least;
}

/// What kernels without a table are modelled with.
std::string printDevice(const Results &results, const std::string &indent) {
  const Measured &large = rowOf(results, "copy", 1e9);
  const Measured &small = rowOf(results, "copy", kInCache);
  const Measured &exp = rowOf(results, "exp", kInCache);
  double rate = 15 * exp.at[0] / 8 / exp.value; // OperatorFamilies.def
  return indent + "bandwidth: " + printNumber(large.at[0] / large.value) +
         "\n" + indent + "cache: " + printNumber(kInCache) + "\n" + indent +
         "cache_bandwidth: " + printNumber(small.at[0] / small.value) + "\n" +
         indent + "vector_rate: " + printNumber(rate) + "\n" + indent +
         "kernel: " + printNumber(callOf(results, "elementwise")) + "\n" +
         indent + "issue: " + printNumber(valueOf(results, "issue")) + "\n";
}

std::string printProducts(const Results &results, const std::string &indent) {
  double f32 = fastest(results);
  std::string rates = "f32: " + printNumber(f32);
  for (const char *type : {"f64", "bf16", "f16"}) {
    double flops = 2.0 * kRateSize * kRateSize * kRateSize;
    rates += ", " + std::string(type) + ": " +
             printNumber(flops / valueOf(results, std::string("rate ") + type));
  }
  std::string text = indent + "rates: {" + rates + "}\n" + indent +
                     "ramp: 16\n" + indent + "tiles: [[16, 16, 1.0]]\n" +
                     indent +
                     "seconds: " + printNumber(callOf(results, "products")) +
                     "\n" + indent + "measured:\n";
  for (bool isTransposed : {false, true})
    text +=
        indent + "  - dtype: f32\n" + indent +
        "    transposed: " + (isTransposed ? "true" : "false") + "\n" + indent +
        "    seconds: " +
        printRows(results, isTransposed ? "products transposed" : "products") +
        "\n";
  return text;
}

/// Of measureOperators: all that have one size.
std::string printOperators(const Results &results, const std::string &indent) {
  std::vector<std::string> names;
  for (const Measured &each : results)
    if (each.at.size() == 1 && each.table.find(' ') == std::string::npos &&
        std::ranges::find(names, each.table) == names.end())
      names.push_back(each.table);
  std::string text;
  for (const std::string &name : names)
    text += indent + name + ": " + printRows(results, name) + "\n";
  return text;
}

std::string optionalRows(const char *key, const Results &results,
                         const std::string &table) {
  bool has = std::ranges::any_of(
      results, [&](const Measured &each) { return each.table == table; });
  return has ? key + printRows(results, table) : "";
}

std::string printCollectives(const Results &results, int ranks) {
  std::string text;
  for (CollectiveKind kind : plan::EnumValuesCollectiveKind()) {
    std::string name = getName(kind);
    text +=
        "    - kind: " + name + "\n      ranks: " + std::to_string(ranks) +
        "\n      seconds: " + printRows(results, name + " seconds") +
        "\n      start: " + printRows(results, name + " start") +
        "\n      finish: " + printRows(results, name + " finish") +
        optionalRows("\n      beside: ", results, name + " beside") +
        optionalRows("\n      lost: ", results, name + " lost") +
        "\n      tensor: " + printNumber(valueOf(results, name + " tensor")) +
        "\n      processor: " +
        printNumber(valueOf(results, name + " processor")) + "\n";
  }
  return text;
}

bool hasKernels(const Results &results) {
  return std::ranges::any_of(
      results, [](const Measured &each) { return each.table == "products"; });
}

/// Bytes a second that a rank passes on in a large gather, for groups that were
/// not measured.
double linkOf(const Results &results, int ranks) {
  double bytes = 64 << 20;
  double seconds = 0, size = 1;
  for (const char *part : {"start", "seconds", "finish"}) {
    const Measured &row =
        rowOf(results, "all_gather " + std::string(part), bytes);
    seconds += row.value;
    size = row.at[0];
  }
  return size * (ranks - 1) / ranks / std::max(seconds, 1e-9);
}

} // namespace

std::string
fsdp::printCluster(const MachineFacts &facts,
                   const std::map<int, std::vector<Measured>> &byRanks) {
  const Results &alone = byRanks.begin()->second;
  std::string text =
      "# Written by fsdp-run --calibrate for ranks of the back end '" +
      facts.backend + "'\n# (" + facts.threads +
      "). It holds for runs on this machine\n# that are started alike; "
      "docs/Simulate.md says what the keys are.\n";
  text += "name: " + facts.backend + "\n";
  text += "ranks_per_node: 1024\n";
  text += "device:\n  kind: cpu\n  name: '" + facts.processor + "'\n";
  text += "  memory: " + printNumber(double(facts.memory)) + "\n";
  text += "  reserved: " + printNumber(double(facts.reserved)) + "\n";
  text += printDevice(alone, "  ");
  text += "  cores: " + std::to_string(facts.cores) + "\n";
  text += "matmul:\n" + printProducts(alone, "  ");
  text += "operators:\n" + printOperators(alone, "  ");
  std::string crowded;
  for (const auto &[ranks, results] : byRanks)
    if (ranks > 1 && hasKernels(results))
      crowded += "  - ranks: " + std::to_string(ranks) + "\n    device:\n" +
                 printDevice(results, "      ") + "    matmul:\n" +
                 printProducts(results, "      ") + "    operators:\n" +
                 printOperators(results, "      ");
  if (!crowded.empty())
    text += "crowded:\n" + crowded;
  text += "host:\n  upload: " +
          printNumber(rowOf(alone, "copy", 1e9).at[0] /
                      rowOf(alone, "copy", 1e9).value / 2) +
          "\n  download: " +
          printNumber(rowOf(alone, "copy", 1e9).at[0] /
                      rowOf(alone, "copy", 1e9).value / 2) +
          "\n  bandwidth: " +
          printNumber(rowOf(alone, "copy", 1e9).at[0] /
                      rowOf(alone, "copy", 1e9).value) +
          "\n";
  // Of two ranks, for groups that were not measured.
  const auto &[pair, two] = *std::next(byRanks.begin());
  double latency = 0;
  for (const char *part : {"start", "seconds", "finish"})
    latency += rowOf(two, "all_gather " + std::string(part), 0).value;
  text +=
      "network:\n  kind: linear\n  link: " + printNumber(linkOf(two, pair)) +
      "\n  launch: " + printNumber(latency) + "\n  processor: " +
      printNumber(std::min(1.0, valueOf(two, "all_gather processor"))) + "\n";
  // Threads read each other's tensors where they lie.
  if (facts.backend == "local")
    text += "  staging: false\n";
  text += "  measured:\n";
  for (const auto &[ranks, results] : byRanks)
    if (ranks > 1)
      text += printCollectives(results, ranks);
  text += "  skew:\n";
  for (const auto &[ranks, results] : byRanks)
    if (ranks > 1)
      text += "    - ranks: " + std::to_string(ranks) +
              "\n      seconds: " + printRows(results, "skew seconds") + "\n";
  return text;
}
