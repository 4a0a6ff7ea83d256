//===- BatchNorm.cpp - Batch norm without data ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `batch_norm` updates its running statistics behind the back of its schema,
// which says nothing about writing. Above autograd it is replaced by an
// operator that computes the same and says so: functionalization then turns it
// into `_native_batch_norm_legit_functional`, whose results are the new
// statistics.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/Shapes.h"

#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/batch_norm_native.h>

using namespace fsdp::meta;

static Tensor batchNorm(const Tensor &input, const OptionalTensor &weight,
                        const OptionalTensor &bias,
                        const OptionalTensor &runningMean,
                        const OptionalTensor &runningVar, bool training,
                        double momentum, double eps, bool cudnnEnabled) {
  bool updates = training && given(runningMean) && given(runningVar);
  // LibTorch has a way of its own for empty inputs; it writes nothing.
  if (!updates || input.numel() == 0)
    return at::native::batch_norm(input, weight, bias, runningMean, runningVar,
                                  training, momentum, eps, cudnnEnabled);
  Tensor mean = *runningMean, var = *runningVar;
  return std::get<0>(at::_native_batch_norm_legit(
      input, weight, bias, mean, var, training, momentum, eps));
}

static Three normalize(const Tensor &input, const OptionalTensor &weight,
                       bool training) {
  bool mixed = given(weight) && weight->scalar_type() != input.scalar_type();
  at::ScalarType type = mixed ? weight->scalar_type() : input.scalar_type();
  int64_t channels = training ? input.size(1) : 0;
  return {inFormatOf(input.sizes(), input, input),
          contiguous({channels}, input, type),
          contiguous({channels}, input, type)};
}

static Three nativeBatchNorm(const Tensor &input, const OptionalTensor &weight,
                             const OptionalTensor &, const OptionalTensor &,
                             const OptionalTensor &, bool training, double,
                             double) {
  return normalize(input, weight, training);
}

static Three legit(const Tensor &input, const OptionalTensor &weight,
                   const OptionalTensor &, Tensor &, Tensor &, bool training,
                   double, double) {
  return normalize(input, weight, training);
}

static Three legitNoStats(const Tensor &input, const OptionalTensor &weight,
                          const OptionalTensor &, bool training, double,
                          double) {
  return normalize(input, weight, training);
}

static Three backward(const Tensor &, const Tensor &input,
                      const OptionalTensor &weight, const OptionalTensor &,
                      const OptionalTensor &, const OptionalTensor &,
                      const OptionalTensor &, bool, double,
                      std::array<bool, 3> mask) {
  at::ScalarType type =
      given(weight) ? weight->scalar_type() : input.scalar_type();
  Tensor parameter = contiguous({input.size(1)}, input, type);
  return {mask[0] ? inFormatOf(input.sizes(), input, input) : Tensor(),
          mask[1] ? contiguousLike(parameter) : Tensor(),
          mask[2] ? contiguousLike(parameter) : Tensor()};
}

TORCH_LIBRARY_IMPL(aten, AutogradMeta, m) { m.impl("batch_norm", batchNorm); }

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("native_batch_norm", nativeBatchNorm);
  m.impl("_native_batch_norm_legit", legit);
  m.impl("_native_batch_norm_legit.no_stats", legitNoStats);
  m.impl("native_batch_norm_backward", backward);
}
