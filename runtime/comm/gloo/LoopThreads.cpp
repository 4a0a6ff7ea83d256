//===- LoopThreads.cpp - Scheduling of gloo's threads ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/gloo/LoopThreads.h"

using namespace fsdp;

LoopThreads::LoopThreads(const cpu_set_t &processors) : unpinned(processors) {
  isActive = sched_getscheduler(/*pid=*/0) == SCHED_OTHER &&
             sched_getparam(/*pid=*/0, &before) == 0 &&
             sched_setscheduler(/*pid=*/0, SCHED_BATCH, &before) == 0;
}

LoopThreads::~LoopThreads() {
  if (isActive)
    sched_setscheduler(/*pid=*/0, SCHED_OTHER, &before);
}
