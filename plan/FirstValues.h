//===- FirstValues.h - What a plan may say of first values ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_FIRSTVALUES_H
#define FSDP_PLAN_FIRSTVALUES_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace fsdp {

/// Floating-point types that need no scale of their own: f32, f64, f16, bf16.
bool isPlainFloat(plan::DType dtype);

/// Whether values of `from` can be read into a tensor of `to`: both are the
/// same, or plain floats.
bool isConvertible(plan::DType from, plan::DType to);

/// Whether a state's first value is a function of its adapter's base.
bool isOfBase(const plan::StateT &state);

/// Whether a state is the average of its owner's values, and begins as that.
bool isAverage(const plan::StateT &state);

/// What is wrong with `init` for a tensor of that shape and type ("needs a
/// matrix"), or nothing.
std::optional<std::string> checkInitializer(const plan::InitializerT &init,
                                            std::span<const int64_t> shape,
                                            plan::DType dtype);

/// "normal(0, 0.02)"
std::string describeInitializer(const plan::InitializerT &init);

} // namespace fsdp

#endif // FSDP_PLAN_FIRSTVALUES_H
