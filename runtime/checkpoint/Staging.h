//===- Staging.h - What a rank writes of a checkpoint -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CHECKPOINT_STAGING_H
#define FSDP_RUNTIME_CHECKPOINT_STAGING_H

#include "runtime/checkpoint/CheckedFile.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/SavedStates.h"
#include "runtime/device/Arenas.h"
#include "runtime/states/Parts.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// A copy of the elements that one rank may have to write: its shards, unless
/// another replica's turn it is, without padding, and what FSDP does not cut,
/// since the ranks that hold it may differ in it.
class CheckpointStaging {
public:
  CheckpointStaging(const plan::PlanT &plan, int rank);

  const std::vector<SavedState> &states() const { return saved; }

  /// Takes the values that the states have now. Unless `mayChange`, what needs
  /// no copy stays in the arena, where nobody writes before all is written.
  void copy(const Arenas &arenas, bool mayChange);

  /// For each state in `states()` that FSDP does not cut the hash of what the
  /// rank has of it; 0 if no other rank has the same elements.
  std::vector<uint64_t> hashCopies() const;

  /// For each of these states whether any ranks that hold the same elements
  /// differ in them. `hashes` are all ranks' of `hashCopies`.
  std::vector<bool>
  findDifferences(const std::vector<std::vector<uint64_t>> &hashes) const;

  /// What goes into this rank's files, one list for each; several pieces of one
  /// state are in several files. Of the states of `hashCopies` in which ranks
  /// differ each writes its own copy, else one of them does.
  std::vector<std::vector<PieceToStore>>
  files(const std::vector<bool> &differs) const;

  /// What the manifest says of the states.
  std::vector<ManifestState> describe(const std::vector<bool> &differs) const;

private:
  struct Piece {
    size_t state; ///< in `saved`
    size_t file;
    /// Of a state that FSDP does not cut: its number among these.
    std::optional<size_t> copied;
    Region region;
    std::optional<Part> from; ///< nothing if there are no elements
    uint64_t offset;          ///< in `memory`
    const char *data;         ///< there, or in the arena
  };
  uint64_t bytesOf(const Piece &piece) const;

  std::vector<int> holdersOf(size_t copied, int ofRank) const;

  const plan::PlanT &plan;
  const int rank;
  const std::vector<SavedState> saved;
  std::vector<size_t> copies; ///< in `saved`, what FSDP does not cut
  std::vector<Piece> pieces;
  std::unique_ptr<char[]> memory;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_CHECKPOINT_STAGING_H
