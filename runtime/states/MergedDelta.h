//===- MergedDelta.h - What an adapter adds to its base ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_STATES_MERGEDDELTA_H
#define FSDP_RUNTIME_STATES_MERGEDDELTA_H

#include "plan/plan_generated.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fsdp {

/// What an adapter adds to its base.
class MergedDelta {
public:
  /// `down` [rank, in] and `up` [out, rank] in any floating-point types, of
  /// convolutions with more dims behind these.
  MergedDelta(const plan::AdapterT &adapter, at::Tensor down, at::Tensor up);

  /// Adds to neighbouring elements of the base, of which the first is its
  /// `first` one in row-major order: in f32 (f64 to f64), rounded once. Beside
  /// them it holds some MiB.
  void addTo(at::Tensor elements, int64_t first) const;

private:
  at::Tensor left, right; ///< [rows of the base, rank], [rank, columns]
  double scale;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_MERGEDDELTA_H
