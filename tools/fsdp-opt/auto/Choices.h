//===- Choices.h - Decisions as a config, and in words ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_AUTO_CHOICES_H
#define FSDP_TOOLS_FSDPOPT_AUTO_CHOICES_H

#include "decide/Search.h"
#include "tools/fsdp-opt/config/Config.h"

#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// Whether the file has the key, "fsdp_config.prefetch".
bool says(const Config &config, std::string_view key);

/// What the config does not say itself.
SearchOptions findFreedom(const Config &config, const Cluster &cluster);

/// Patterns that match these names alone.
std::string quotePattern(const std::string &name);

/// `config` with the decisions about `model`, as a person could have written
/// them. What its overrides say of single buckets counts more.
Config applyDecisions(Config config, const StepModel &model,
                      const Decisions &decisions, const SearchOptions &options);

/// A line for each kind of decision that `options` left open.
std::vector<std::string> describeDecisions(const StepModel &model,
                                           const Decisions &decisions,
                                           const SearchOptions &options);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_AUTO_CHOICES_H
