//===- Folder.h - A folder of checkpoints -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checkpoints of a run lie side by side, "step_100", "step_200". One that is
// being written has the suffix ".tmp".
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CHECKPOINT_FOLDER_H
#define FSDP_RUNTIME_CHECKPOINT_FOLDER_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// Used by rank 0 alone, but for the names. Throws fsdp::Error
/// (CheckpointNotWritten) where nothing else is said.
class CheckpointFolder {
public:
  explicit CheckpointFolder(std::string path) : folder(std::move(path)) {}

  const std::string &path() const { return folder; }
  std::string nameOf(uint64_t step) const;
  std::string temporaryOf(uint64_t step) const;

  /// Steps of the checkpoints that are complete, ascending; none if there is no
  /// such folder.
  std::vector<uint64_t> steps() const;

  /// Makes the folder, if need be, and writes to it.
  void checkWritable() const;
  /// A new, empty temporary folder of that step; what earlier runs left behind
  /// of theirs is removed.
  void begin(uint64_t step) const;
  /// Makes the temporary folder, with all that is in it, the checkpoint.
  void commit(uint64_t step) const;
  /// Removes the temporary folder. Never throws.
  void discard(uint64_t step) const noexcept;
  /// Removes all but the newest `count` and that of step `best`, and what
  /// earlier runs left behind. What cannot be removed is a warning. Nothing is
  /// being written.
  void keep(uint64_t count, std::optional<uint64_t> best = std::nullopt) const;

  /// Makes the link "best" point at the checkpoint of that step. A file system
  /// without links is a warning.
  void nameBest(uint64_t step) const;

private:
  /// Temporary folders.
  std::vector<std::string> findStale() const;

  std::string folder;
};

/// The files of a folder are still there after a loss of power.
void syncFolder(const std::string &path);

/// The checkpoint that `path` means: itself, or the newest in it whose manifest
/// is whole and whose files are there; damaged ones are passed over with a
/// warning. Empty if `path` holds none, or is not there. Throws fsdp::Error:
/// CheckpointVersion, and CheckpointDamaged if `path` is a checkpoint itself.
std::optional<std::string> findCheckpoint(const std::string &path);

} // namespace fsdp

#endif // FSDP_RUNTIME_CHECKPOINT_FOLDER_H
