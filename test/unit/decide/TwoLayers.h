//===- TwoLayers.h - A step of two layers -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_DECIDE_TWOLAYERS_H
#define FSDP_TEST_UNIT_DECIDE_TWOLAYERS_H

#include "test/unit/simulate/SmallPlan.h"

namespace fsdp::test {

inline constexpr uint64_t kActivation = 1 << 20; ///< bytes of each layer
inline constexpr double kForward = 2, kBackward = 4, kGather = 3; ///< ms

/// Each layer is gathered for forward and again for backward, one ahead. Its
/// forward makes one activation from the one before it, which its backward
/// reads.
SmallPlan makeTwoLayers();

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_DECIDE_TWOLAYERS_H
