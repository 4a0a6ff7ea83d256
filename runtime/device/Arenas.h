//===- Arenas.h - A rank's memories -----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DEVICE_ARENAS_H
#define FSDP_RUNTIME_DEVICE_ARENAS_H

#include "plan/plan_generated.h"
#include "runtime/device/Arena.h"

namespace fsdp {

/// The arena of the device, in which all lies that the plan does not put
/// elsewhere, and the host's beside it, where the plan has one. Names them:
/// both outlive it.
class Arenas {
public:
  Arenas(const Arena &device, const Arena *host = nullptr)
      : onDevice(&device), onHost(host) {}

  const Arena &device() const { return *onDevice; }
  /// Null: there is none.
  const Arena *host() const { return onHost; }

  const Arena &of(plan::MemorySpace memory) const {
    return memory == plan::MemorySpace::host && onHost ? *onHost : *onDevice;
  }
  const Arena &of(const plan::StateT &state) const { return of(state.memory); }

private:
  const Arena *onDevice, *onHost;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_ARENAS_H
