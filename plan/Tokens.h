//===- Tokens.h - What a program reads of tokens ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_TOKENS_H
#define FSDP_PLAN_TOKENS_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <optional>

namespace fsdp {

/// Of a rank's batch, with padding.
struct TokenCount {
  int64_t rows = 0, perRow = 0;
};

/// Of a program some of whose inputs are numbers in rows; absent if none are,
/// or they differ.
std::optional<TokenCount> countTokens(const plan::PlanT &plan,
                                      const plan::ProgramT &program);

} // namespace fsdp

#endif // FSDP_PLAN_TOKENS_H
