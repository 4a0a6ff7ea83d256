//===- GpuText.cpp - Measurements of a GPU as a cluster's file ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/calibrate/ClusterText.h"
#include "runtime/calibrate/GpuCases.h"

#include <algorithm>
#include <string>

using namespace fsdp;

/// "products transposed bf16" is a table of bf16.
static std::string typeOf(const std::string &table) {
  return table.substr(table.rfind(' ') + 1);
}

static std::vector<std::string> tablesOf(const std::vector<Measured> &all,
                                         const std::string &prefix) {
  std::vector<std::string> names;
  for (const Measured &each : all)
    if (each.table.starts_with(prefix) &&
        std::ranges::find(names, each.table) == names.end())
      names.push_back(each.table);
  return names;
}

static double tableValue(const std::vector<Measured> &all,
                         const std::string &table) {
  auto found = std::ranges::find(all, table, &Measured::table);
  return found == all.end() ? 0 : found->value;
}

static std::string printMatmul(const GpuMeasurements &gpu) {
  std::string rates;
  for (const std::string &table : tablesOf(gpu.tables, "rate "))
    rates += (rates.empty() ? "" : ", ") + typeOf(table) + ": " +
             printNumber(tableValue(gpu.tables, table));
  double least = 1;
  for (const Measured &each : gpu.tables)
    if (each.table.starts_with("products "))
      least = std::min(least, each.value);
  std::string text = "matmul:\n  rates: {" + rates +
                     "}\n  units: " + std::to_string(gpu.facts.units) +
                     "\n  seconds: " + printNumber(least) + "\n  measured:\n";
  for (const std::string &table : tablesOf(gpu.tables, "products "))
    text += "    - dtype: " + typeOf(table) + "\n      transposed: " +
            (table.starts_with("products transposed") ? "true" : "false") +
            "\n      seconds: " + printRows(gpu.tables, table) + "\n";
  return text;
}

static std::string printNetwork(const GpuMeasurements &gpu) {
  // Ranks that share one GPU copy within its memory.
  if (gpu.ranks == 1)
    return "network: # one GPU: no transfers were measured\n  kind: linear\n"
           "  link: " +
           printNumber(gpu.bandwidth / 2) + "\n";
  std::string text =
      "network:\n  kind: linear\n  link: " + printNumber(gpu.link) +
      "\n  launch: " + printNumber(gpu.launch) +
      "\n  processor: " + printNumber(gpu.processor) +
      "\n  communicator: " + printNumber(double(gpu.facts.communicator)) +
      "\n  measured:\n";
  for (CollectiveKind kind : plan::EnumValuesCollectiveKind())
    text += std::string("    - kind: ") + getName(kind) +
            "\n      ranks: " + std::to_string(gpu.ranks) +
            "\n      seconds: " + printRows(gpu.tables, getName(kind)) + "\n";
  return text;
}

std::string fsdp::printGpuCluster(const GpuMeasurements &gpu) {
  std::string name = gpu.facts.name;
  std::erase(name, '\'');
  auto key = [](const char *key, double value) {
    return std::string("  ") + key + ": " + printNumber(value) + "\n";
  };
  return "# Written by fsdp-run --calibrate, on " + std::to_string(gpu.ranks) +
         (gpu.ranks == 1 ? " GPU" : " GPUs") +
         " of one machine.\n"
         "# docs/Simulate.md says what the keys are.\n"
         "name: calibrated\nranks_per_node: " +
         std::to_string(gpu.ranks) + "\ndevice:\n  kind: cuda\n  name: '" +
         name + "'\n" + key("memory", double(gpu.facts.memory)) +
         key("reserved", double(gpu.facts.reserved)) +
         key("bandwidth", gpu.bandwidth) + key("cache", gpu.cache) +
         key("cache_bandwidth", gpu.cacheBandwidth) +
         // Where there is no multiply-add, half of it is nothing.
         key("vector_rate", tableValue(gpu.tables, "rate f32") / 2) +
         key("kernel", gpu.kernel) + key("issue", gpu.issue) +
         key("attention_forward", gpu.attentionForward) +
         key("attention_backward", gpu.attentionBackward) +
         key("convolution", gpu.convolution) + printMatmul(gpu) + "host:\n" +
         key("upload", gpu.upload) + key("download", gpu.download) +
         key("copy", gpu.copy) + key("bandwidth", gpu.hostBandwidth) +
         printNetwork(gpu);
}
