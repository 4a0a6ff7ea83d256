//===- Streams.h - Streams of a CUDA device ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CUDA_STREAMS_H
#define FSDP_RUNTIME_CUDA_STREAMS_H

#include "runtime/device/Streams.h"

#include <memory>

namespace fsdp {

/// CUDA devices that this process may use; 0 without a driver. `reason`, if
/// given, is what the CUDA runtime says of there being none.
int countCudaDevices(const char **reason = nullptr);

/// The streams of CUDA device `device`, over the CUDA runtime. The compute
/// stream does not wait for the default stream. Throws fsdp::Error
/// (DeviceFailed) if there is no such device.
std::shared_ptr<Streams> makeCudaStreams(int device);

} // namespace fsdp

#endif // FSDP_RUNTIME_CUDA_STREAMS_H
