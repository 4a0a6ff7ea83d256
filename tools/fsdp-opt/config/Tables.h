//===- Tables.h - All keys of the config ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_TABLES_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_TABLES_H

#include "tools/fsdp-opt/config/Fields.h"

#include <string_view>
#include <vector>

namespace fsdp {

// The top level, a chapter of docs/Config.md each.
std::vector<Field<Config>> getRankFields();
std::vector<Field<Config>> getShardingFields();
std::vector<Field<Config>> getStepFields();
std::vector<Field<Config>> getDataFields();
std::vector<Field<Config>> getWeightFields();
// Of the ranks.
std::vector<Field<Config>> getParallelFields();
// Of fsdp_config.
std::vector<Field<Config>> getMemoryFields();
// Of the step.
Field<Config> getOptimizerField();
Field<Config> getFloat8Field();
Field<Config> getQuantizeField();
Field<Config> getAdapterField();
Field<Config> getSchedulerField();
Field<Config> getEmaField();
Field<Config> getMetricsField();

struct Chapter {
  std::string_view name;
  Table<Config> table;
};
const std::vector<Chapter> &getChapters();

/// All of them in one.
const Table<Config> &getTopLevel();

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_TABLES_H
