//===- Layers.h - A step of unlike layers -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_DECIDE_LAYERS_H
#define FSDP_TEST_UNIT_DECIDE_LAYERS_H

#include "test/unit/simulate/SmallPlan.h"

#include <cstdint>
#include <vector>

namespace fsdp::test {

/// Milliseconds on `plainCluster`, and bytes.
struct Layer {
  double forward, backward, gather, reduce;
  uint64_t output;    ///< that the next layer reads, and backward
  uint64_t inner;     ///< that backward reads, and nothing else
  uint64_t temporary; ///< of which it is made
};

/// Each layer, "layers.0" and so on, is gathered for forward and again for
/// backward, one ahead; its gradients are reduced behind its backward, and the
/// reduction is waited for when the next one has started.
SmallPlan makeLayers(const std::vector<Layer> &layers);

/// So many unlike ones, which follow from `seed` alone.
std::vector<Layer> drawLayers(size_t count, uint32_t seed);

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_DECIDE_LAYERS_H
