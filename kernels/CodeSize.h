//===- CodeSize.h - How long the code of a program is -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_KERNELS_CODESIZE_H
#define FSDP_KERNELS_CODESIZE_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <optional>

namespace fsdp {

/// Instructions, about, of an operation of a vector, and of storing one.
unsigned costOf(const plan::KernelProgramT &program, const plan::KernelOpT &op);
unsigned costOfStore(plan::DType dtype);

/// Those of a sound program in which each loop is for one vector of each
/// segment: code of all targets is a few times as long. None: it puts columns
/// together of more pieces than there is code for.
std::optional<uint64_t> codeSizeOf(const plan::KernelProgramT &program);

/// What there is code for on all targets, whose limits are far above it
/// (kernels/emit/Evaluator.cpp).
inline constexpr uint64_t kMostCode = 3000;

} // namespace fsdp

#endif // FSDP_KERNELS_CODESIZE_H
