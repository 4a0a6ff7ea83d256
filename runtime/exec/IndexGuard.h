//===- IndexGuard.h - Indices that kernels trust ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_INDEXGUARD_H
#define FSDP_RUNTIME_EXEC_INDEXGUARD_H

#include "plan/Operators.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace fsdp {

/// The operands of a call that its kernel takes for places in other tensors and
/// does not check. They may come from data.
class IndexGuard {
public:
  IndexGuard() = default;
  /// `values` by number. On a device whose memory the host cannot reach nothing
  /// is checked.
  IndexGuard(const plan::PlanT &plan, const plan::ProgramT &program,
             const plan::CallT &call, const std::vector<at::Tensor> &values);

  /// Throws fsdp::Error (KernelFailed) if an element is out of range.
  void check() const;

private:
  struct Guarded {
    IndexOperand range;
    at::Tensor tensor;
  };
  std::vector<Guarded> guarded;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_INDEXGUARD_H
