//===- DTypes.h - Element types of plan and LibTorch ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DEVICE_DTYPES_H
#define FSDP_RUNTIME_DEVICE_DTYPES_H

#include "plan/plan_generated.h"

#include <c10/core/ScalarType.h>

namespace fsdp {

/// LibTorch's name for an element type of a plan.
c10::ScalarType toScalarType(plan::DType dtype);

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_DTYPES_H
