//===- Loader.h - States out of a checkpoint --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CHECKPOINT_LOADER_H
#define FSDP_RUNTIME_CHECKPOINT_LOADER_H

#include "runtime/checkpoint/CheckedFile.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/SavedStates.h"
#include "runtime/comm/Communicator.h"
#include "runtime/device/Arenas.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace fsdp {

/// Collective: finds what --load asks for, the same for all ranks: rank 0
/// looks. `path` is a checkpoint, a folder of several, of which the newest is
/// meant, or safetensors files of other writers (a folder, or one file). Empty
/// if there is none and `mayBeMissing`. `key` is used once. Throws fsdp::Error:
/// CheckpointMissing, CheckpointDamaged, CheckpointVersion.
std::optional<std::string> agreeOnCheckpoint(Fabric &fabric,
                                             const std::string &path,
                                             bool mayBeMissing,
                                             const std::string &key = "load");

/// One rank's view of a checkpoint: the pieces of its files that the rank needs
/// of the states of its own artifact, wherever and however cut they lie.
class CheckpointLoader {
public:
  /// Reads the manifest and the heads of all files, and checks that they have
  /// every state of `plan` in its shape. Files that another writer made need to
  /// have the parameters and persistent buffers alone. Throws fsdp::Error:
  /// CheckpointDamaged, CheckpointMismatch, CheckpointVersion, FileNotReadable,
  /// RuntimeUnsupported.
  CheckpointLoader(const plan::PlanT &plan, int rank, const std::string &path);

  /// Empty for files of another writer.
  const std::optional<Manifest> &manifest() const { return own; }

  /// Whether the state gets its value here.
  bool has(const plan::StateT &state) const { return found.contains(&state); }

  /// Fills this rank's elements of all those states; padding is zero. Every
  /// byte is checked before it counts. Throws fsdp::Error: CheckpointDamaged,
  /// FileNotReadable.
  void load(const Arenas &arenas) const;

private:
  /// A piece that has elements of a state which this rank holds.
  struct Source {
    const plan::StateT *state;
    StoredPiece piece;
  };
  struct File {
    std::string path;
    std::optional<FileSeal> seal;
    std::vector<Source> sources;
  };
  /// What all files have of a name.
  struct Stored {
    plan::DType dtype;
    std::vector<int64_t> shape;
  };
  using Wanted = std::map<std::string, const plan::StateT *>;

  void listFiles(const std::string &path);
  Wanted chooseNames() const;
  void scan(const Wanted &wanted);
  void checkModel(const Wanted &wanted);
  void checkComplete() const;
  [[noreturn]] void refuse(const std::vector<std::string> &problems) const;

  const plan::PlanT &plan;
  const int rank;
  const std::string path;
  const std::vector<SavedState> states;
  std::optional<Manifest> own;
  std::vector<File> files;
  std::map<std::string, Stored> stored;
  std::set<const plan::StateT *> found;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_CHECKPOINT_LOADER_H
