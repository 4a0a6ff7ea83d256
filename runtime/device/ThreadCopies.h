//===- ThreadCopies.h - Copies by threads of the host -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DEVICE_THREADCOPIES_H
#define FSDP_RUNTIME_DEVICE_THREADCOPIES_H

#include "runtime/device/Copies.h"

#include <memory>

namespace fsdp {

/// Where device and host are two regions of one memory: a thread for each
/// direction copies between them. With `bandwidth`, in bytes a second, no
/// direction moves more than that, as if a bus were between them; 0: as fast
/// as the machine copies.
std::unique_ptr<Copies> makeThreadCopies(double bandwidth);

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_THREADCOPIES_H
