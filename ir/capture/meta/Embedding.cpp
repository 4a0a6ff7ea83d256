//===- Embedding.cpp - Lookups of rows without data -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/Shapes.h"
#include "ir/capture/meta/TargetScope.h"

#include <ATen/native/EmbeddingBag.h>

using namespace fsdp::meta;

static Tensor embeddingDenseBackward(const Tensor &gradient, const Tensor &,
                                     int64_t rows, int64_t, bool) {
  return contiguous({rows, gradient.size(-1)}, gradient);
}

/// Whether the CPU sums bags without noting the bag of each index.
static bool sumsDirectly(const Tensor &weight, const OptionalTensor &scale,
                         int64_t paddingIndex) {
  at::ScalarType type = weight.scalar_type();
  bool fast = type == at::kFloat || at::isReducedFloatingType(type);
  return fast && weight.stride(1) == 1 && paddingIndex < 0 &&
         (!given(scale) || scale->stride(0) == 1);
}

/// Results: sums, the bag of each index, the bags' sizes, the rows that were
/// the largest.
template <bool forwardOnly>
static Four bags(const Tensor &weight, const Tensor &indices,
                 const Tensor &offsets, bool, int64_t mode, bool,
                 const OptionalTensor &scale, bool includeLastOffset,
                 int64_t paddingIndex) {
  using at::native::EmbeddingBagMode;
  int64_t count = offsets.size(0) - includeLastOffset;
  at::ScalarType type =
      c10::promoteTypes(indices.scalar_type(), offsets.scalar_type());
  bool isMax = mode == int64_t(EmbeddingBagMode::MAX);
  if (isForCuda()) // EmbeddingBag.cu: _embedding_bag_cuda
    return {contiguous({count, weight.size(1)}, weight),
            contiguous({indices.size(0)}, offsets, type),
            contiguous({offsets.size(0)}, offsets, type),
            isMax ? contiguous({count, weight.size(1)}, offsets, type)
                  : contiguous({0}, offsets, type)};
  bool direct = mode == int64_t(EmbeddingBagMode::SUM) &&
                sumsDirectly(weight, scale, paddingIndex);
  // Sums without a backward have no need of the bags' sizes: the CPU leaves
  // them as they were allocated.
  bool sizesNeeded = !forwardOnly || mode != int64_t(EmbeddingBagMode::SUM);
  int64_t bagSizes = sizesNeeded ? count : offsets.size(0);
  std::vector<int64_t> largest = {bagSizes};
  if (isMax)
    largest.push_back(weight.size(1));
  return {contiguous({count, weight.size(1)}, weight),
          contiguous({direct ? 0 : indices.size(0)}, offsets, type),
          contiguous({bagSizes}, offsets, type),
          contiguous(largest, offsets, type)};
}

static Tensor bagsDenseBackward(const Tensor &gradient, const Tensor &,
                                const Tensor &, const Tensor &, const Tensor &,
                                int64_t rows, bool, int64_t,
                                const OptionalTensor &, int64_t) {
  return contiguous({rows, gradient.size(1)}, gradient);
}

static Tensor bagsBackward(const Tensor &gradient, const Tensor &,
                           const Tensor &, const Tensor &, const Tensor &,
                           const Tensor &, int64_t rows, bool, int64_t,
                           bool sparse, const OptionalTensor &, int64_t) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !sparse, "embedding_bag with sparse gradients; use sparse=False");
  return contiguous({rows, gradient.size(1)}, gradient);
}

static Tensor bagScalesBackward(const Tensor &gradient, const Tensor &,
                                const Tensor &indices, const Tensor &,
                                const Tensor &, int64_t, int64_t) {
  return contiguous({indices.size(0)}, gradient);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("embedding_dense_backward", embeddingDenseBackward);
  m.impl("_embedding_bag", bags<false>);
  m.impl("_embedding_bag_forward_only", bags<true>);
  m.impl("_embedding_bag_backward", bagsBackward);
  m.impl("_embedding_bag_dense_backward", bagsDenseBackward);
  m.impl("_embedding_bag_per_sample_weights_backward", bagScalesBackward);
}
