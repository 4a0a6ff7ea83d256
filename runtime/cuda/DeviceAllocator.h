//===- DeviceAllocator.h - Kernels write where the plan says ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What PlannedAllocator.h is for the host's memory: stands in front of
// LibTorch's caching allocator for CUDA devices. A thread with a RankMemory of
// the device's kind is served by its plan; all else is passed on.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CUDA_DEVICEALLOCATOR_H
#define FSDP_RUNTIME_CUDA_DEVICEALLOCATOR_H

namespace fsdp {

/// Puts the allocator into both of LibTorch's slots: that of c10's table and
/// the one that c10::cuda reads by itself (c10/cuda/CUDACachingAllocator.h).
/// Takes effect once in a process; it stays. Needs no device.
void installDeviceAllocator();

} // namespace fsdp

#endif // FSDP_RUNTIME_CUDA_DEVICEALLOCATOR_H
