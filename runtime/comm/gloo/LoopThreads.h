//===- LoopThreads.h - Scheduling of gloo's threads -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_GLOO_LOOPTHREADS_H
#define FSDP_RUNTIME_COMM_GLOO_LOOPTHREADS_H

#include "runtime/comm/Unpinned.h"

namespace fsdp {

/// Threads that are created while it lives are those that move messages: they
/// run on all of `processors`, and are scheduled as SCHED_BATCH. So they get
/// their share, but take no processor from a thread that runs when they wake
/// up. A gloo loop that does, from a rank in the middle of a send, asks epoll
/// again and again for what that rank's lock keeps from it
/// (gloo/transport/tcp/pair.cc, handleEvents), for a whole slice. A policy that
/// the calling thread has of its own stays.
class LoopThreads {
public:
  explicit LoopThreads(const cpu_set_t &processors);
  ~LoopThreads();
  LoopThreads(const LoopThreads &) = delete;
  LoopThreads &operator=(const LoopThreads &) = delete;

private:
  Unpinned unpinned;
  sched_param before;
  bool isActive;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_GLOO_LOOPTHREADS_H
