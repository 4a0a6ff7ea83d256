//===- LoopThreads.h - Scheduling of gloo's threads -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_GLOO_LOOPTHREADS_H
#define FSDP_RUNTIME_COMM_GLOO_LOOPTHREADS_H

#include <sched.h>

namespace fsdp {

/// Threads that are created while it lives are scheduled as SCHED_BATCH: they
/// get their share of processors, but take none from a thread that runs when
/// they wake up. A gloo loop that does, from a rank in the middle of a send,
/// asks epoll again and again for what that rank's lock keeps from it
/// (gloo/transport/tcp/pair.cc, handleEvents), for a whole slice. Does nothing
/// where the calling thread has a policy of its own.
class LoopThreads {
public:
  LoopThreads();
  ~LoopThreads();
  LoopThreads(const LoopThreads &) = delete;
  LoopThreads &operator=(const LoopThreads &) = delete;

private:
  sched_param before;
  bool isActive;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_GLOO_LOOPTHREADS_H
