//===- WholeCheckpoint.h - Checkpoints out of whole tensors -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What it takes to make a checkpoint of a run that was not ours: what an
// artifact's checkpoints hold, and a writer that is given whole tensors. No
// rank takes part. Errors are fsdp::Error.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PYTHON_NATIVE_WHOLECHECKPOINT_H
#define FSDP_PYTHON_NATIVE_WHOLECHECKPOINT_H

#include "python/native/Door.h"
#include "support/Optimizers.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fsdp {

/// A tensor of an artifact's checkpoints.
struct KeptState {
  std::vector<std::string> names; ///< in checkpoints; then those it is tied to
  std::string role;               ///< plan::Role's
  std::string dtype;
  std::vector<int64_t> shape; ///< of the whole tensor
  bool mayLack; ///< it has a first value that serves as well: random, volatile
};

/// Parameters that are updated alike.
struct KeptGroup {
  OptimizerKind optimizer;
  std::vector<std::string> params;
  double lr; ///< before any schedule
  OptimizerNumbers numbers;
};

struct KeptArtifact {
  std::vector<KeptState> states;
  std::vector<KeptGroup> groups; ///< by their first parameters
  uint64_t microBatches = 1; ///< with the fewest ranks that there is a plan for
  uint64_t seed = 0;
  double lr = 0;        ///< the base's
  std::string schedule; ///< in words
};

/// Throws as PlanFile::read.
KeptArtifact describeArtifact(const std::string &path);

/// What the artifact's own schedule multiplies rates by in `step`; nothing if
/// it ends with the run, whose length only the run knows.
std::optional<double> rateFactor(const std::string &artifact, uint64_t step);

/// Writes `step_N` in `folder` for the artifact, of whole tensors by the first
/// names of their states and in their types, and returns its path. States that
/// may be lacking have their first values where no tensor is given. Throws
/// CheckpointMismatch, CheckpointNotWritten, and as reading the model file.
std::string writeWholeCheckpoint(const std::string &artifact,
                                 const std::string &folder, uint64_t step,
                                 uint64_t rows,
                                 std::span<const LentTensor> tensors);

} // namespace fsdp

#endif // FSDP_PYTHON_NATIVE_WHOLECHECKPOINT_H
