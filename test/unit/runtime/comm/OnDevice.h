//===- OnDevice.h - Host memory, moved by way of a GPU ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_COMM_ONDEVICE_H
#define FSDP_TEST_UNIT_RUNTIME_COMM_ONDEVICE_H

#include "runtime/comm/backends/Backends.h"

#include <memory>

namespace fsdp::test {

/// GPUs of this machine that have a driver, asked in a process of its own: one
/// that asked itself could not fork ranks any more.
int countGpus();

/// A fabric whose communicators take the host's memory, as those of the CPU's
/// back ends: what a transfer names is copied to the GPU before it, and back
/// behind its wait, which blocks.
std::unique_ptr<Fabric> useHostMemory(std::unique_ptr<Fabric> fabric,
                                      std::shared_ptr<Streams> streams);

/// `nccl` so, on the GPU that has the number of the process's rank.
std::unique_ptr<Fabric> connectNcclOnGpu(const FabricOptions &options);

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_COMM_ONDEVICE_H
