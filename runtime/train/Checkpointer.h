//===- Checkpointer.h - Saves a run as it goes ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_TRAIN_CHECKPOINTER_H
#define FSDP_RUNTIME_TRAIN_CHECKPOINTER_H

#include "runtime/checkpoint/FolderLock.h"
#include "runtime/session/Session.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace fsdp {

struct CheckpointOptions {
  std::string folder; ///< that checkpoints are written to, as step_N
  uint64_t every = 0; ///< steps; 0: at the end alone
  uint64_t keep = 0;  ///< how many are kept; 0: all
  /// Whether that with the least loss in validation (BestLoss) is kept, too.
  bool keepsBest = false;
  /// Of the ranks' agreements; another one for each that a session has.
  std::string name = "checkpoint";
  bool isInStep = false; ///< whether a step waits until it is on the disk
};

/// Writes checkpoints of a training session (docs/Checkpoints.md). A save
/// copies what this rank writes into memory of its own and returns; a thread
/// writes it, agrees with the other ranks' threads and makes it a checkpoint.
/// At most one is being written. Its errors are thrown by the next call, on all
/// ranks: fsdp::Error (CheckpointNotWritten). All calls but the destructor are
/// collective, between steps.
class Checkpointer {
public:
  /// `session` outlives it. While it lives, no other run saves to the folder.
  /// Throws fsdp::Error: CheckpointNotWritten, CheckpointsLocked,
  /// CheckpointInTheWay if the folder has checkpoints of later steps,
  /// RuntimeUnsupported if the session does not train.
  Checkpointer(Session &session, const CheckpointOptions &options);
  /// Waits for the thread.
  ~Checkpointer();
  Checkpointer(const Checkpointer &) = delete;
  Checkpointer &operator=(const Checkpointer &) = delete;

  /// To be called after each step: saves if it is time to.
  void afterStep();
  /// Saves the session as it is, unless it was saved since its last step.
  void save();
  /// Returns when what is being written is on the disk, if anything is.
  void wait();
  /// Saves, and returns when the checkpoint is on the disk and the folder holds
  /// no more than are to be kept.
  void finish();

private:
  class Writer;

  Session &session;
  const CheckpointOptions options;
  std::optional<FolderLock> lock; ///< on rank 0; outlives the writer
  std::unique_ptr<Writer> writer;
  std::optional<uint64_t> saved; ///< the step that was saved last
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_CHECKPOINTER_H
