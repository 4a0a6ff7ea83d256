//===- NcclAbort.h - End a communicator's kernels ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_NCCLABORT_H
#define FSDP_RUNTIME_COMM_NCCLABORT_H

#include "runtime/comm/NcclLibrary.h"

#include <chrono>
#include <future>

namespace fsdp {

/// ncclCommAbort, which tells the communicator's kernels to let go at once, but
/// does not return before all graphs are gone that hold any of them (init.cc:
/// commDestroySync). The thread that calls it may be the one that is to destroy
/// them, and a graph may not end before other communicators are aborted, too.
class NcclAbort {
public:
  /// Begins on a thread of its own.
  void begin(const NcclLibrary &nccl, nccl::Comm comm);
  /// Waits until it is through, if it was begun, but no longer than `time`.
  void wait(std::chrono::milliseconds time) noexcept;

private:
  std::future<void> through;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_NCCLABORT_H
