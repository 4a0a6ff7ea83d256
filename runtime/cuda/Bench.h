//===- Bench.h - A CUDA device that is measured -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CUDA_BENCH_H
#define FSDP_RUNTIME_CUDA_BENCH_H

#include "runtime/comm/Communicator.h"
#include "runtime/device/Bench.h"
#include "runtime/device/Streams.h"

#include <memory>

namespace fsdp {

/// On the compute stream of `streams`. Collective over `fabric`, which outlives
/// it and moves the device's memory; null: there is one GPU. Throws
/// fsdp::Error.
std::unique_ptr<Bench> makeCudaBench(std::shared_ptr<Streams> streams,
                                     Fabric *fabric);

} // namespace fsdp

#endif // FSDP_RUNTIME_CUDA_BENCH_H
