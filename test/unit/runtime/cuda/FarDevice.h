//===- FarDevice.h - A device that is the host in disguise ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For tests of all that a GPU's runs do differently, except the GPU: memory
// that the host is told to keep away from, transfers on streams, and one thread
// that issues all ranks' programs. Kernels are the host's.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_FARDEVICE_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_FARDEVICE_H

#include "runtime/launch/Launch.h"
#include "runtime/session/Session.h"

#include <functional>
#include <string>

namespace fsdp::test {

/// As `launch`, on such a device. Returns the first error, "" if there is none.
std::string launchFar(const LaunchOptions &options,
                      const std::function<void(Session &)> &body);

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_FARDEVICE_H
