//===- ProductsOnCpu.cpp - Products that GPUs alone have, on CPUs ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch has these operators for GPUs alone. What is compiled for these, and
// runs on a device that the host plays, calls them there: sums of products of
// what the factors are, which nothing rounds in between. Products of eight bits
// take scales of blocks there, too, and are else LibTorch's own.
//
//===----------------------------------------------------------------------===//

#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_mm_native.h>
#include <ATen/ops/arange.h>
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

/// The numbers that `codes` stand for, along whose rows each 32 share a scale.
/// Where it lies cuBLAS' documentation says ("1D Block Scaling Factors
/// Layout"): tiles of 128 rows and 4 blocks behind each other, row by row.
at::Tensor widenBlocks(const at::Tensor &codes, const at::Tensor &scales) {
  int64_t rows = codes.size(0), blocks = codes.size(1) / 32;
  int64_t across = (blocks + 3) / 4;
  TORCH_CHECK(scales.is_contiguous() &&
                  scales.numel() == (rows + 127) / 128 * across * 512,
              "scales of blocks fill tiles");
  at::Tensor row = at::arange(rows).unsqueeze(1), block = at::arange(blocks);
  at::Tensor tile = row.div(128, "floor") * across + block.div(4, "floor");
  at::Tensor inner = row.remainder(32) * 16 +
                     row.remainder(128).div(32, "floor") * 4 +
                     block.remainder(4);
  at::Tensor each = scales.to(at::kFloat).index({tile * 512 + inner});
  return codes.to(at::kFloat) * each.repeat_interleave(32, 1);
}

at::Tensor multiplyScaled(const at::Tensor &left, const at::Tensor &right,
                          const at::Tensor &leftScale,
                          const at::Tensor &rightScale,
                          const std::optional<at::Tensor> &bias,
                          const std::optional<at::Tensor> &resultScale,
                          std::optional<at::ScalarType> to, bool fast) {
  if (leftScale.scalar_type() != at::kFloat8_e8m0fnu)
    return at::native::_scaled_mm_cpu(left, right, leftScale, rightScale, bias,
                                      resultScale, to, fast);
  TORCH_CHECK(left.is_contiguous() && right.t().is_contiguous() && !bias,
              "rows of the first factor and columns of the second one");
  return at::mm(widenBlocks(left, leftScale),
                widenBlocks(right.t(), rightScale).t())
      .to(*to);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("mm.dtype", multiply);
  m.impl("bmm.dtype", multiplyBatches);
  m.impl("_scaled_mm", multiplyScaled);
}
