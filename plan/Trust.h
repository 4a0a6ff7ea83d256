//===- Trust.h - Where an artifact comes from -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_TRUST_H
#define FSDP_PLAN_TRUST_H

#include <cstdint>

namespace fsdp {

/// Kernels that trust their operands are called with what fits alone, unless
/// the run was told that the artifact is its own.
enum class Trust : uint8_t { stranger, own };

} // namespace fsdp

#endif // FSDP_PLAN_TRUST_H
