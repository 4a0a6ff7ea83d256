//===- Count.cu - How far the device came, for the host to see ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Launches.cuh"

using namespace fsdp;

/// A read over the bus would take a microsecond: what is added to stays on the
/// device. A volatile store is one that the whole system sees (PTX ISA, "Memory
/// Consistency Model": relaxed, at system scope), in one piece.
static __global__ void raiseCount(uint64_t *count, volatile uint64_t *seen) {
  *seen = ++*count;
}

void fsdp::raiseOnDevice(uint64_t *count, uint64_t *seen, StreamHandle stream) {
  launchKernel("the kernel that counts", raiseCount, 1, 1, stream, count, seen);
}
