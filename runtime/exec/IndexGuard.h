//===- IndexGuard.h - Indices that kernels trust ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_INDEXGUARD_H
#define FSDP_RUNTIME_EXEC_INDEXGUARD_H

#include "plan/Operators.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace fsdp {

/// The operands of a call that its kernel takes for places in other tensors and
/// does not check. They may come from data.
class IndexGuard {
public:
  IndexGuard() = default;
  /// `values` by number. Of those in a device's memory only if `looksOnDevice`,
  /// which has to wait for each: and then those, too, that kernels check.
  IndexGuard(const plan::PlanT &plan, const plan::ProgramT &program,
             const plan::CallT &call, const std::vector<at::Tensor> &values,
             bool looksOnDevice);

  /// Throws fsdp::Error (KernelFailed) if an element is out of range.
  void check() const;
  /// Whether it waits for a device.
  bool waits() const;

private:
  struct Guarded {
    IndexOperand range;
    at::Tensor tensor;
  };
  std::vector<Guarded> guarded;
};

/// `message`, of a device's, and that an index may be the cause where it is of
/// the kind that such a one has.
std::string hintAtIndices(std::string message);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_INDEXGUARD_H
