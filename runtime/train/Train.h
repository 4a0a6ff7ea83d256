//===- Train.h - The training loop and the dry run --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_TRAIN_TRAIN_H
#define FSDP_RUNTIME_TRAIN_TRAIN_H

#include "runtime/launch/Launch.h"
#include "runtime/train/Checkpointer.h"
#include "runtime/train/Monitors.h"

#include <cstdint>
#include <optional>
#include <string>

namespace fsdp {

/// What a person may choose of the members has a row in RunOptions.def.
struct TrainOptions {
  std::string metricsPath; ///< JSON lines; empty: none
  MonitorOptions monitors;
  /// That a rank's device can do a second, in the type that the model
  /// multiplies in; 0: unknown.
  double peakFlops = 0;
  std::string exportPath; ///< safetensors, a file or a folder; empty: none
  std::string exportTrainedPath; ///< the same of trained parameters alone
  std::string exportMergedPath;  ///< the same with adapters merged
  std::string exportEmaPath;     ///< the same with averages
  std::vector<std::string> exportWithout; ///< patterns of what both leave out
  uint64_t exportShardBytes = kExportShardBytes; ///< of a folder's files
  CheckpointOptions checkpoints;                 ///< no folder: none
  std::string outputsPath;                       ///< safetensors; empty: none
  std::string profilePath; ///< Chrome's trace events as JSON; empty: none
  /// "FIRST:COUNT"; empty: a few after the first ones.
  std::string profileSteps;
  /// Steps from one validation to the next, in place of the artifact's number;
  /// 0: at the end alone.
  std::optional<uint64_t> evalEvery;
  /// The run ends behind so many validations in a row that found no loss below
  /// the least; 0: it does not.
  uint64_t patience = 0;
  /// Computes the validation's loss once, and takes no step.
  bool evalOnly = false;
};

/// Trains, or computes outputs, on all ranks of this process, for as many steps
/// as the session's options say, or none: progress on stderr, a summary on
/// stdout. Throws fsdp::Error.
void train(const LaunchOptions &launchOptions, const TrainOptions &options);

/// Plays rank 0 alone, with transfers that move no data: prints memory and
/// collectives, checks artifact, LibTorch, operators, model file and data, and
/// runs the steps that the session's options name if the machine has the
/// memory. Throws fsdp::Error.
void dryRun(const LaunchOptions &launchOptions);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_TRAIN_H
