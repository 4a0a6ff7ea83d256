//===- Checks.h - What the config's keys say together -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_CHECKS_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_CHECKS_H

#include "tools/fsdp-opt/config/Reading.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// Refuses, notes or completes what several keys say, once all are read. One
/// runs unless a key that it looks at is wrong: that would be told twice.
struct Check {
  /// The keys; a mistake is one of the first.
  std::vector<std::string_view> keys;
  void (*run)(Reading &);
};

/// In the order in which they must run.
std::span<const Check> getShardingChecks();
std::span<const Check> getStepChecks();
/// Behind what is refused together.
std::span<const Check> getMicroBatchChecks();

/// Refuses what does not go together (ir/features/Relations.h).
void checkCombinations(Reading &reading);

/// Refuses what `key` says at `node` if `text` is no regular expression.
void checkRegex(const YamlReader &read, const YAML::Node &node,
                const std::string &key, const std::string &text);

/// N of PEFT's word "pissa_niter_N"; nothing of others.
std::optional<int64_t> readPissaIterations(const std::string &word);

/// "cosine", wherever it stands; empty if the file does not say.
std::string getScheduleName(const Reading &reading);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_CHECKS_H
