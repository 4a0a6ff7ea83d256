//===- AttentionShapes.cpp - What fused attention returns -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/Shapes.h"

#include <ATen/OpMathType.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <algorithm>
#include <array>

using namespace fsdp;
using namespace fsdp::meta;

//===----------------------------------------------------------------------===//
// CPU
//===----------------------------------------------------------------------===//

/// Sizes [batch, heads, length, width], laid out as [batch, length, heads,
/// width].
static Tensor byPosition(const Tensor &like, int64_t width) {
  return contiguous({like.size(0), like.size(2), like.size(1), width}, like)
      .transpose(1, 2);
}

static Two flash(const Tensor &query, const Tensor &, const Tensor &, double,
                 bool, const OptionalTensor &, std::optional<double>) {
  Tensor sums = contiguous({query.size(0), query.size(2), query.size(1)}, query,
                           at::toOpMathType(query.scalar_type()));
  return {at::empty_like(query), sums.transpose(1, 2)};
}

static Three flashBackward(const Tensor &, const Tensor &query,
                           const Tensor &key, const Tensor &value,
                           const Tensor &, const Tensor &, double, bool,
                           const OptionalTensor &, std::optional<double>) {
  return {byPosition(query, query.size(3)), byPosition(key, key.size(3)),
          byPosition(value, value.size(3))};
}

//===----------------------------------------------------------------------===//
// CUDA
//===----------------------------------------------------------------------===//

namespace {

/// Flash and cuDNN: output, sums, two that only nested tensors have, lengths of
/// queries and keys, state of the generator in two parts, debug mask.
using Fused = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt,
                         c10::SymInt, Tensor, Tensor, Tensor>;

Fused flashCuda(const Tensor &query, const Tensor &key, const Tensor &, double,
                bool, bool, std::optional<double>) {
  Tensor sums = contiguous({query.size(0), query.size(1), query.size(2)}, query,
                           at::kFloat);
  return {at::empty_like(query),
          sums,
          Tensor(),
          Tensor(),
          query.size(2),
          key.size(2),
          contiguous({2}, query, at::kUInt64),
          contiguous({}, query, at::kUInt64),
          contiguous({0}, query)};
}

Three flashCudaBackward(const Tensor &, const Tensor &query, const Tensor &key,
                        const Tensor &value, const Tensor &, const Tensor &,
                        const Tensor &, const Tensor &, int64_t, int64_t,
                        double, bool, const Tensor &, const Tensor &,
                        std::optional<double>) {
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value)};
}

/// Sizes of the output, in the query's order of dims in memory.
Tensor inOrderOf(const Tensor &query, IntArrayRef sizes) {
  if (query.sizes() == sizes)
    return at::empty_like(query);
  std::array<int64_t, 4> order = {0, 1, 2, 3}, strides;
  // The fastest first; of equal strides the first dim.
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::max<int64_t>(query.stride(a), 1) <
           std::max<int64_t>(query.stride(b), 1);
  });
  int64_t stride = 1;
  for (int64_t dim : order) {
    strides[dim] = stride;
    stride *= sizes[dim];
  }
  return at::empty_strided(sizes, strides, query.options());
}

Fused cudnn(const Tensor &query, const Tensor &key, const Tensor &value,
            const OptionalTensor &, bool needsSums, double, bool, bool,
            std::optional<double>) {
  Tensor output = inOrderOf(
      query, {query.size(0), query.size(1), query.size(2), value.size(3)});
  Tensor sums =
      needsSums ? contiguous({query.size(0), query.size(1), query.size(2), 1},
                             query, at::kFloat)
                : Tensor();
  return {output,
          sums,
          Tensor(),
          Tensor(),
          query.size(2),
          key.size(2),
          contiguous({}, query, at::kLong),
          contiguous({}, query, at::kLong),
          Tensor()};
}

Three cudnnBackward(const Tensor &, const Tensor &query, const Tensor &key,
                    const Tensor &value, const Tensor &, const Tensor &,
                    const Tensor &, const Tensor &, const Tensor &,
                    const Tensor &, const Tensor &, int64_t, int64_t, double,
                    bool, std::optional<double>) {
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value)};
}

/// The kernel writes sums by blocks of 32 queries.
Four efficient(const Tensor &query, const Tensor &, const Tensor &value,
               const OptionalTensor &, bool needsSums, double, bool,
               std::optional<double>) {
  int64_t length = needsSums ? (query.size(2) + 31) / 32 * 32 : 0;
  return {byPosition(query, value.size(3)),
          contiguous({query.size(0), query.size(1), length}, query, at::kFloat),
          contiguous({}, query, at::kLong), contiguous({}, query, at::kLong)};
}

Four efficientBackward(const Tensor &, const Tensor &query, const Tensor &key,
                       const Tensor &value, const Tensor &mask, const Tensor &,
                       const Tensor &, const Tensor &, const Tensor &, double,
                       std::array<bool, 4> needed, bool,
                       std::optional<double>) {
  Tensor gradient;
  if (mask.defined() && needed[3]) {
    std::vector<int64_t> sizes = mask.sizes().vec();
    int64_t width = sizes.back();
    sizes.back() = (width + 15) / 16 * 16;
    gradient = contiguous(sizes, mask).slice(-1, 0, width);
  }
  return {byPosition(query, query.size(3)), byPosition(key, key.size(3)),
          byPosition(value, value.size(3)), gradient};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_scaled_dot_product_flash_attention_for_cpu", flash);
  m.impl("_scaled_dot_product_flash_attention_for_cpu_backward", flashBackward);
  m.impl("_scaled_dot_product_flash_attention", flashCuda);
  m.impl("_scaled_dot_product_flash_attention_backward", flashCudaBackward);
  m.impl("_scaled_dot_product_cudnn_attention", cudnn);
  m.impl("_scaled_dot_product_cudnn_attention_backward", cudnnBackward);
  m.impl("_scaled_dot_product_efficient_attention", efficient);
  m.impl("_scaled_dot_product_efficient_attention_backward", efficientBackward);
}
