//===- GivenCode.h - Code that came with a kernel's program -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Machines without libfsdp-kernels.so make no code; an artifact can hold what
// fsdp-opt --kernel-code made for them.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_KERNELS_GIVENCODE_H
#define FSDP_KERNELS_GIVENCODE_H

#include "plan/plan_generated.h"

#include <string>
#include <string_view>

namespace fsdp {

/// A target that code can be made for ahead of time: "x86-64-v3", "x86-64-v4",
/// "aarch64", "sm_80", "sm_90" or "sm_100".
bool isCodeTarget(std::string_view name);

/// Their names, for people.
std::string listCodeTargets();

/// What a plan holds of one kernel. Without a plan, nothing.
class GivenCode {
public:
  GivenCode() = default;
  /// `plan` outlives it.
  GivenCode(const plan::PlanT &plan, uint32_t kernel)
      : plan(&plan), kernel(kernel) {}

  /// Code that `target` runs, by this build's emitter (kEmitterVersion): its
  /// own, or where none can be made an older one's. Empty: there is none that
  /// may be run. Throws fsdp::Error (KernelsUnusable) if there is none but what
  /// a stranger may have written (Trust.h), and none can be made.
  std::string_view take(std::string_view target) const;

private:
  const plan::KernelCodeT *find(std::string_view target) const;

  const plan::PlanT *plan = nullptr;
  uint32_t kernel = 0;
};

} // namespace fsdp

#endif // FSDP_KERNELS_GIVENCODE_H
