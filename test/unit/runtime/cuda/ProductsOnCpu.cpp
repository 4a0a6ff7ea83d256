//===- ProductsOnCpu.cpp - Products that write float32, on CPUs -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch has these operators for GPUs alone. What is compiled for these, and
// runs on a device that the host plays, calls them there: sums of products of
// what the factors are, which nothing rounds in between.
//
//===----------------------------------------------------------------------===//

#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include <c10/util/Exception.h>

namespace {

/// As Blas.cpp asks.
void check(const at::Tensor &left, const at::Tensor &right, at::ScalarType to) {
  TORCH_CHECK(left.scalar_type() == right.scalar_type(),
              "input dtypes must be the same");
  TORCH_CHECK(to == at::kFloat && (left.scalar_type() == at::kHalf ||
                                   left.scalar_type() == at::kBFloat16),
              "out_dtype must be fp32 for fp16/bf16 inputs");
}

at::Tensor multiply(const at::Tensor &left, const at::Tensor &right,
                    at::ScalarType to) {
  check(left, right, to);
  return at::mm(left.to(to), right.to(to));
}

at::Tensor multiplyBatches(const at::Tensor &left, const at::Tensor &right,
                           at::ScalarType to) {
  check(left, right, to);
  return at::bmm(left.to(to), right.to(to));
}

} // namespace

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("mm.dtype", multiply);
  m.impl("bmm.dtype", multiplyBatches);
}
