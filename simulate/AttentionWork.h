//===- AttentionWork.h - What calls of attention multiply -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_ATTENTIONWORK_H
#define FSDP_SIMULATE_ATTENTIONWORK_H

#include "plan/plan_generated.h"

#include <optional>
#include <string_view>
#include <vector>

namespace fsdp {

struct AttentionWork {
  plan::DType dtype; ///< of what is multiplied
  double flops;
  /// What is read of a mask beyond its own bytes: each head reads it.
  double bytes = 0;
  /// Of the rate that the device's fused attention has.
  double share = 1;
};

/// Of a call of the operator `name`, without "aten::", forward or backward, on
/// these tensors:
/// two products, or five (FlashAttention-2, section 3.1), of the pairs of
/// queries and keys that the kernel does not leave out. Where documents begin
/// in a row, data says: half as many are taken as the call has room for, of
/// equal lengths. Nothing for operands that are not attention's.
std::optional<AttentionWork>
estimateAttention(const plan::ProgramT &program, const plan::CallT &call,
                  const std::vector<const plan::ValueT *> &operands,
                  std::string_view name, bool isBackward);

} // namespace fsdp

#endif // FSDP_SIMULATE_ATTENTIONWORK_H
