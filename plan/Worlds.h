//===- Worlds.h - One artifact for several numbers of ranks -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A file holds one plan, as PlanFile reads it, or several of one training, each
// for another number of ranks. Their checkpoints are each other's.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_WORLDS_H
#define FSDP_PLAN_WORLDS_H

#include "plan/Reader.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// Raised by a change of worlds.fbs that an older runtime would misread.
inline constexpr uint32_t kWorldsVersion = 1;

/// What a plan trains, whatever the number of ranks: XXH3-128, 32 hex digits,
/// of the compiler's version, the model, the states that a checkpoint keeps and
/// their first values, the data, the optimizers' numbers, and how many rows a
/// step has. `plan` has been verified.
std::string fingerprintTraining(const plan::PlanT &plan);

/// A file of one plan or several.
class WorldPlans {
public:
  /// Throws fsdp::Error: FileNotReadable, and as `fromBytes`.
  static WorldPlans read(const std::string &path,
                         Trust trust = Trust::stranger);

  /// The artifact in `bytes`; errors call it `name`. Of several plans only what
  /// is around them is checked. Throws fsdp::Error: NotAnArtifact,
  /// ArtifactNewer, ArtifactCorrupted; of one plan as PlanFile::fromBytes.
  static WorldPlans fromBytes(std::string_view bytes, const std::string &name,
                              Trust trust = Trust::stranger);

  /// Whether `bytes` start like several plans.
  static bool areSeveral(std::string_view bytes);

  /// Numbers of ranks that there are plans for, rising.
  const std::vector<uint64_t> &worlds() const { return ranks; }

  /// What several plans train: fingerprintTraining of each of them. Empty of
  /// one plan, which nobody compares.
  const std::string &training() const { return trained; }

  /// The plan for `world` ranks, or the one that there is, which can be taken
  /// once; one of several is checked now. Throws fsdp::Error: as
  /// PlanFile::fromBytes; WorldSizeMismatch if there is none for so many;
  /// BadUsage if there are several and `world` says nothing.
  PlanFile take(std::optional<uint64_t> world = std::nullopt);

private:
  std::string name;
  Trust trust = Trust::stranger;
  std::vector<uint64_t> ranks;
  std::string trained;
  std::vector<std::string> artifacts; ///< of several plans, as `ranks`
  std::optional<PlanFile> single;
};

/// One file of artifacts (serializePlan, each for another number of ranks); of
/// one alone its own bytes. Throws fsdp::Error: BadUsage if two are for as many
/// ranks or do not train the same; as PlanFile::fromBytes.
std::string joinWorlds(std::span<const std::string> artifacts);

} // namespace fsdp

#endif // FSDP_PLAN_WORLDS_H
