//===- Workplace.h - Where a rank's programs run ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_SESSION_WORKPLACE_H
#define FSDP_RUNTIME_SESSION_WORKPLACE_H

#include "runtime/exec/Executor.h"
#include "runtime/exec/SharedStates.h"
#include "runtime/session/Session.h"

namespace fsdp {

/// A rank's device, memory and transfers, which all programs of the plan share.
struct Workplace {
  /// Throws fsdp::Error where the device or its memory cannot be had.
  Workplace(const plan::PlanT &plan, Fabric &ranks,
            const SessionOptions &options);

  /// For executors.
  RankContext context();
  /// Collective: sizes the scratch region by what the executors take, the same
  /// on all ranks.
  void rehearse(std::span<Executor *const> executors);
  /// All bits of what no state owns become ones.
  void poison();
  /// There are no more runs. Executors are still there: what a failed step has
  /// started reads their instructions.
  void finish() noexcept;

  const plan::PlanT &plan;
  const std::unique_ptr<Device> device;
  Fabric &fabric;
  Arena arena;
  std::unique_ptr<Arena> host; ///< beside the device's; null: none
  const Arenas arenas;
  std::optional<Arena> scratch;
  RankMemory memory;
  Transfers transfers;
  std::unique_ptr<Copies> copies; ///< null: there is one memory
  SharedStates shared;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_WORKPLACE_H
