//===- Abort.h - End a communicator's kernels -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_NCCL_ABORT_H
#define FSDP_RUNTIME_COMM_NCCL_ABORT_H

#include "runtime/comm/nccl/Library.h"

#include <chrono>
#include <future>

namespace fsdp {

/// ncclCommAbort, which tells the communicator's kernels to let go at once, but
/// does not return before all of them that are queued are through, and all
/// graphs are gone that hold any (init.cc: commDestroySync). Those may wait for
/// kernels of other communicators, which are to be aborted, too, and the thread
/// that calls it may be the one that is to destroy the graphs. So each
/// communicator's abort has a thread, and only what must waits for it.
class NcclAbort {
public:
  /// Begins on a thread of its own.
  void begin(const NcclLibrary &nccl, nccl::Comm comm);
  /// Waits until it is through, if it was begun, but no longer than `time`;
  /// false if it is not through then.
  bool wait(std::chrono::milliseconds time) noexcept;

private:
  std::future<void> through;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_NCCL_ABORT_H
