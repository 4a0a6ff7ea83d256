//===- Initializer.h - First values that are computed -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An element of a tensor is a pure function of the seed, the tensor's name and
// the element's number in the unsharded tensor, row-major. So every sharding,
// world size and number of threads draws the same weights, and a rank computes
// its own rows only.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_WEIGHTS_INITIALIZER_H
#define FSDP_RUNTIME_WEIGHTS_INITIALIZER_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace fsdp {

/// The tensor that is initialised.
struct InitialTensor {
  std::string_view name;          ///< the state's first
  std::span<const int64_t> shape; ///< unsharded
  uint64_t seed = 0;
};

/// Elements [first, first + to.size()). `T` is float, or double for tensors of
/// f64, whose numbers are drawn with 53 random bits in place of 24; narrower
/// types are rounded from float. `init` was checked by `checkInitializer`
/// (plan/FirstValues.h).
template <typename T>
void computeElements(const plan::InitializerT &init,
                     const InitialTensor &tensor, uint64_t first,
                     std::span<T> to);

extern template void computeElements(const plan::InitializerT &,
                                     const InitialTensor &, uint64_t,
                                     std::span<float>);
extern template void computeElements(const plan::InitializerT &,
                                     const InitialTensor &, uint64_t,
                                     std::span<double>);

/// The inverse of the standard normal's distribution function, to about 1e-15
/// relative; `probability` in [0, 1].
double inverseNormal(double probability);

} // namespace fsdp

#endif // FSDP_RUNTIME_WEIGHTS_INITIALIZER_H
