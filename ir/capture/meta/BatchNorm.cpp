//===- BatchNorm.cpp - Batch norm without data ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `batch_norm` and `native_batch_norm` update their running statistics behind
// the back of their schemas, which say nothing about writing. Above autograd,
// or where writes become values, they are replaced by an operator that computes
// the same and says so: functionalization then turns it into
// `_native_batch_norm_legit_functional`, whose results are the new statistics.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/Shapes.h"
#include "ir/capture/meta/TargetScope.h"

#include <ATen/AccumulateType.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/batch_norm_native.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_batch_norm.h>

using namespace fsdp::meta;

static bool updates(const Tensor &input, const OptionalTensor &runningMean,
                    const OptionalTensor &runningVar, bool training) {
  // LibTorch has a way of its own for empty inputs; it writes nothing.
  return training && given(runningMean) && given(runningVar) && input.numel();
}

static Tensor batchNorm(const Tensor &input, const OptionalTensor &weight,
                        const OptionalTensor &bias,
                        const OptionalTensor &runningMean,
                        const OptionalTensor &runningVar, bool training,
                        double momentum, double eps, bool cudnnEnabled) {
  if (!updates(input, runningMean, runningVar, training))
    return at::native::batch_norm(input, weight, bias, runningMean, runningVar,
                                  training, momentum, eps, cudnnEnabled);
  Tensor mean = *runningMean, var = *runningVar;
  return std::get<0>(at::_native_batch_norm_legit(
      input, weight, bias, mean, var, training, momentum, eps));
}

/// `tensor` without the wrapper of functionalization.
static OptionalTensor unwrap(const OptionalTensor &tensor) {
  namespace functional = at::functionalization::impl;
  if (!given(tensor) || !functional::isFunctionalTensor(*tensor))
    return tensor;
  functional::sync(*tensor);
  return functional::from_functional_tensor(*tensor);
}

/// Below autograd, whose rule for `native_batch_norm` stays.
static Three functionalBatchNorm(const Tensor &input,
                                 const OptionalTensor &weight,
                                 const OptionalTensor &bias,
                                 const OptionalTensor &runningMean,
                                 const OptionalTensor &runningVar,
                                 bool training, double momentum, double eps) {
  namespace functional = at::functionalization::impl;
  if (updates(input, runningMean, runningVar, training)) {
    Tensor mean = *runningMean, var = *runningVar;
    return at::_native_batch_norm_legit(input, weight, bias, mean, var,
                                        training, momentum, eps);
  }
  Three results;
  {
    at::AutoDispatchSkipFunctionalize guard;
    results = at::native_batch_norm(
        *unwrap(input), unwrap(weight), unwrap(bias), unwrap(runningMean),
        unwrap(runningVar), training, momentum, eps);
  }
  auto &[output, mean, deviation] = results;
  return {functional::to_functional_tensor(output),
          functional::to_functional_tensor(mean),
          functional::to_functional_tensor(deviation)};
}

static Three normalize(const Tensor &input, const OptionalTensor &weight,
                       bool training) {
  bool mixed = given(weight) && weight->scalar_type() != input.scalar_type();
  at::ScalarType type = mixed ? weight->scalar_type() : input.scalar_type();
  int64_t channels = training ? input.size(1) : 0;
  // CUDA gives statistics in either case, in the type that it sums in, and an
  // output like the input (Normalization.cu: batch_norm_cuda).
  if (isForCuda()) {
    type = at::toAccumulateType(input.scalar_type(), /*is_cuda=*/true);
    channels = input.size(1);
  }
  return {isForCuda() ? at::empty_like(input)
                      : inFormatOf(input.sizes(), input, input),
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

static Four withUpdate(const Tensor &input, const OptionalTensor &weight,
                       const OptionalTensor &, Tensor &, Tensor &, double,
                       double) {
  auto [output, mean, deviation] = normalize(input, weight, true);
  // CUDA keeps its library's workspace in the last result.
  return {output, mean, deviation, contiguous({0}, input, at::kByte)};
}

static Three backwardOfUpdate(const Tensor &gradient, const Tensor &input,
                              const Tensor &weight, const OptionalTensor &mean,
                              const OptionalTensor &variance,
                              const OptionalTensor &saveMean,
                              const OptionalTensor &saveDeviation, bool update,
                              double eps, std::array<bool, 3> mask,
                              const Tensor &) {
  return backward(gradient, input, weight, mean, variance, saveMean,
                  saveDeviation, update, eps, mask);
}

static Two updateStatistics(const Tensor &input, const OptionalTensor &mean,
                            const OptionalTensor &, double) {
  const Tensor &like = given(mean) ? *mean : input;
  return {contiguous({input.size(1)}, like), contiguous({input.size(1)}, like)};
}

TORCH_LIBRARY_IMPL(aten, AutogradMeta, m) { m.impl("batch_norm", batchNorm); }

TORCH_LIBRARY_IMPL(aten, Functionalize, m) {
  m.impl("native_batch_norm", functionalBatchNorm);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("native_batch_norm", nativeBatchNorm);
  m.impl("_native_batch_norm_legit", legit);
  m.impl("_native_batch_norm_legit.no_stats", legitNoStats);
  m.impl("native_batch_norm_backward", backward);
  m.impl("_batch_norm_with_update", withUpdate);
  m.impl("batch_norm_backward", backwardOfUpdate);
  m.impl("batch_norm_update_stats", updateStatistics);
}
