//===- MergedDelta.h - What an adapter adds to its base ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_STATES_MERGEDDELTA_H
#define FSDP_RUNTIME_STATES_MERGEDDELTA_H

#include "plan/plan_generated.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace fsdp {

/// What an adapter makes of its base.
class MergedDelta {
public:
  /// `down` [rank, in] and `up` [out, rank] in any floating-point types, of
  /// convolutions with more dims behind these, of experts as PEFT has them: all
  /// of one behind all of another in `down`, and of each rank behind each other
  /// in `up`. `magnitude` of `out` elements, undefined if there is none.
  MergedDelta(const plan::AdapterT &adapter, at::Tensor down, at::Tensor up,
              at::Tensor magnitude = {});

  /// Whether norms decide: all of the base has to be measured before anything
  /// is added.
  bool hasMagnitude() const { return magnitude.defined(); }

  /// Neighbouring elements of the base, of which the first is its `first` one
  /// in row-major order, as they are without the adapter: each is measured
  /// once.
  void measure(const at::Tensor &elements, int64_t first);

  /// Adds to such elements, and brings what has magnitudes to them: in f32 (f64
  /// to f64), rounded once. Beside them it holds some MiB.
  void addTo(at::Tensor elements, int64_t first) const;

private:
  /// Of parts of at most some rows: the elements and their sums.
  template <typename F>
  void forEachPart(const at::Tensor &elements, int64_t first, F visit) const;

  /// [rows of the base, rank] and [rank, columns], one of each expert.
  std::vector<at::Tensor> lefts, rights;
  double scale;
  bool isTurned;
  at::Tensor magnitude; ///< f64
  at::Tensor squares;   ///< of each out, f64
};

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_MERGEDDELTA_H
