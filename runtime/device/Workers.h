//===- Workers.h - The threads that help a rank -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DEVICE_WORKERS_H
#define FSDP_RUNTIME_DEVICE_WORKERS_H

#include <functional>

namespace fsdp {

/// Calls `visit` on each of the calling thread's OpenMP threads but itself, of
/// which it has `threads` with itself, at the same time.
void forEachWorker(int threads, const std::function<void()> &visit);

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_WORKERS_H
