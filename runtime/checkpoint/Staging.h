//===- Staging.h - What a rank writes of a checkpoint -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CHECKPOINT_STAGING_H
#define FSDP_RUNTIME_CHECKPOINT_STAGING_H

#include "runtime/checkpoint/CheckedFile.h"
#include "runtime/checkpoint/Regions.h"
#include "runtime/checkpoint/SavedStates.h"
#include "runtime/device/Arenas.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// A copy of the elements that one rank may have to write: its shards, unless
/// another replica's turn it is, without padding, and all states that are not
/// sharded, since ranks may differ in them.
class CheckpointStaging {
public:
  CheckpointStaging(const plan::PlanT &plan, int rank);

  const std::vector<SavedState> &states() const { return saved; }

  /// Takes the values that the states have now. Unless `mayChange`, what needs
  /// no copy stays in the arena, where nobody writes before all is written.
  void copy(const Arenas &arenas, bool mayChange);

  /// For each state in `states()` that is not sharded the hash of its bytes.
  std::vector<uint64_t> hashWhole() const;

  /// What goes into this rank's files, one list for each; several pieces of one
  /// state are in several files. `isOfRank` says for each state in the order of
  /// `hashWhole` whether ranks differ in it: then each writes its own, else one
  /// of them does.
  std::vector<std::vector<PieceToStore>>
  files(const std::vector<bool> &isOfRank) const;

private:
  struct Piece {
    size_t state; ///< in `saved`
    size_t file;
    /// Of a state that is not sharded: its number among these.
    std::optional<size_t> whole;
    Region region;
    std::optional<Part> from; ///< nothing if there are no elements
    uint64_t offset;          ///< in `memory`
    const char *data;         ///< there, or in the arena
  };
  uint64_t bytesOf(const Piece &piece) const;

  const plan::PlanT &plan;
  const int rank, world;
  const std::vector<SavedState> saved;
  std::vector<Piece> pieces;
  std::unique_ptr<char[]> memory;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_CHECKPOINT_STAGING_H
