//===- Unpinned.cpp - Threads that do not share a rank's core -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/Unpinned.h"

using namespace fsdp;

cpu_set_t fsdp::allowedProcessors() {
  cpu_set_t processors;
  if (sched_getaffinity(/*pid=*/0, sizeof(processors), &processors) != 0)
    CPU_ZERO(&processors);
  return processors;
}

Unpinned::Unpinned(const cpu_set_t &processors) {
  isActive = CPU_COUNT(&processors) != 0 &&
             sched_getaffinity(/*pid=*/0, sizeof(before), &before) == 0 &&
             !CPU_EQUAL(&before, &processors) &&
             sched_setaffinity(/*pid=*/0, sizeof(processors), &processors) == 0;
}

Unpinned::~Unpinned() {
  if (isActive)
    sched_setaffinity(/*pid=*/0, sizeof(before), &before);
}
