//===- LengthOrder.h - Rows of like length, for a program -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PYTHON_NATIVE_LENGTHORDER_H
#define FSDP_PYTHON_NATIVE_LENGTHORDER_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <vector>

namespace fsdp {

/// The rows of an epoch as LengthPools orders rows of these lengths. `data`'s
/// `length_pool` is above 0 and a multiple of its `length_group`.
std::vector<uint64_t> orderByLength(const std::vector<uint64_t> &lengths,
                                    const plan::DataT &data, uint64_t epoch);

} // namespace fsdp

#endif // FSDP_PYTHON_NATIVE_LENGTHORDER_H
