//===- Choices.h - Decisions as a config, and in words ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_AUTO_CHOICES_H
#define FSDP_TOOLS_FSDPOPT_AUTO_CHOICES_H

#include "decide/Search.h"
#include "tools/fsdp-opt/config/Combinations.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fsdp {

/// A mechanism that may be tried for the whole step.
struct Change {
  /// What a file would say: keys by their paths, and values. Where it says one
  /// of them itself, nothing is tried.
  std::vector<std::pair<std::string_view, std::string_view>> keys;
  bool needsHost; ///< memory of a host beside the device
  void (*make)(Config &);
};
extern const Change kReshard, kSelective, kFull, kChunks, kActivationsOnHost,
    kOptimizerOnHost, kParamsOnHost, kFlat, kInFlight;
std::span<const Change *const> getChanges();

/// Types of fewer bits: of each list at most one is chosen, in their order.
std::span<const std::span<const Change *const>> getNarrowTypes();

/// `config` with that change; none where it is not open, or does not go with
/// what the config asks for.
std::optional<Config> withChange(const Config &config, const Change &change,
                                 const Cluster &cluster);

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
