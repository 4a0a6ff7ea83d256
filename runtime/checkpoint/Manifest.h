//===- Manifest.h - What a checkpoint consists of ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CHECKPOINT_MANIFEST_H
#define FSDP_RUNTIME_CHECKPOINT_MANIFEST_H

#include "runtime/checkpoint/CheckedFile.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fsdp {

/// "manifest.json", written last: without it a folder is no checkpoint.
extern const char *const kManifestName;

/// A state of the model that was saved.
struct ManifestState {
  std::string name;
  plan::Role role;
  plan::DType dtype;
  std::vector<int64_t> shape; ///< of the model's tensor
  /// More than 1: the ranks that wrote it differ in it, and had so many copies.
  uint64_t copies = 1;
};

struct Manifest {
  uint64_t step = 0; ///< steps that were made
  uint64_t rows = 0; ///< of the data, that all ranks together have read
  uint64_t seed = 0; ///< of the random sequences
  /// The base's learning rate and what it does over time, for people.
  double lr = 0;
  std::string schedule;
  std::vector<std::pair<std::string, uint32_t>> mesh; ///< axes and sizes
  std::string plan; ///< fingerprint of the artifact
  std::vector<FileSeal> files;
  std::vector<ManifestState> states;

  uint64_t worldSize() const;
};

/// As text, with a checksum of its own.
std::string printManifest(const Manifest &manifest);

/// Throws fsdp::Error: CheckpointDamaged, CheckpointVersion. `path` is for
/// messages.
Manifest parseManifest(const std::string &text, const std::string &path);

/// That of the checkpoint in `folder`. Throws as `parseManifest`, and
/// FileNotReadable.
Manifest readManifest(const std::string &folder);

} // namespace fsdp

#endif // FSDP_RUNTIME_CHECKPOINT_MANIFEST_H
