//===- Indexing.cpp - Selection and lookup without data -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/Shapes.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/zeros.h>

using namespace fsdp::meta;

static Tensor indexSelect(const Tensor &self, int64_t dim,
                          const Tensor &index) {
  std::vector<int64_t> sizes = self.sizes().vec();
  if (!sizes.empty())
    sizes[at::maybe_wrap_dim(dim, self.dim())] = index.numel();
  return contiguous(sizes, self);
}

static Tensor take(const Tensor &self, const Tensor &index) {
  return contiguous(index.sizes(), self);
}

static Tensor flip(const Tensor &self, IntArrayRef) {
  return at::empty_like(self, at::MemoryFormat::Preserve);
}

static Tensor roll(const Tensor &self, IntArrayRef, IntArrayRef) {
  return inFormatOf(self.sizes(), self, self);
}

static Tensor unfoldBackward(const Tensor &gradient, IntArrayRef sizes, int64_t,
                             int64_t, int64_t) {
  return contiguous(sizes, gradient);
}

static Tensor channelShuffle(const Tensor &self, int64_t) {
  return inFormatOf(self.sizes(), self, self);
}

static Tensor bucketize(const Tensor &self, const Tensor &, bool int32, bool) {
  return contiguous(self.sizes(), self, int32 ? at::kInt : at::kLong);
}

static Tensor searchSorted(const Tensor &, const Tensor &self, bool int32, bool,
                           std::optional<std::string_view>,
                           const OptionalTensor &) {
  return contiguous(self.sizes(), self, int32 ? at::kInt : at::kLong);
}

static Tensor bucketizeScalar(const Scalar &, const Tensor &boundaries,
                              bool int32, bool) {
  return contiguous({}, boundaries, int32 ? at::kInt : at::kLong);
}

static Tensor searchSortedScalar(const Tensor &sorted, const Scalar &,
                                 bool int32, bool,
                                 std::optional<std::string_view>,
                                 const OptionalTensor &) {
  return contiguous({}, sorted, int32 ? at::kInt : at::kLong);
}

static Tensor nonzeroStatic(const Tensor &self, int64_t size, int64_t) {
  return contiguous({size, self.dim()}, self, at::kLong);
}

/// LibTorch's own composite kernel selects by the mask first.
static Tensor maskedScatterBackward(const Tensor &gradient, const Tensor &,
                                    IntArrayRef sizes) {
  return contiguous(sizes, gradient);
}

static Tensor repeatInterleave(const Tensor &repeats,
                               std::optional<int64_t> outputSize) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      outputSize, "repeat_interleave without output_size: its result's size "
                  "depends on data");
  return contiguous({*outputSize}, repeats);
}

/// LibTorch's own compares with all classes where there is no data: a class
/// that is none of them would give zeros, where PyTorch refuses it.
static Tensor oneHot(const Tensor &self, int64_t classes) {
  // Not given, it is asked of the values, which capture refuses.
  if (classes == -1)
    classes = self.max().item<int64_t>() + 1;
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes.push_back(classes);
  return at::zeros(sizes, self.options()).scatter(-1, self.unsqueeze(-1), 1);
}

template <int64_t (*count)(int64_t, int64_t, int64_t)>
static Tensor triangleIndices(int64_t rows, int64_t columns, int64_t offset,
                              std::optional<at::ScalarType> dtype,
                              std::optional<at::Layout>,
                              std::optional<at::Device>, std::optional<bool>) {
  return at::empty({2, count(rows, columns, offset)},
                   at::device(at::kMeta).dtype(dtype.value_or(at::kLong)));
}

static int64_t lowerCount(int64_t rows, int64_t columns, int64_t offset) {
  return at::native::get_tril_size(rows, columns, offset);
}

static int64_t upperCount(int64_t rows, int64_t columns, int64_t offset) {
  return rows * columns - lowerCount(rows, columns, offset - 1);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("index_select", indexSelect);
  m.impl("take", take);
  m.impl("flip", flip);
  m.impl("roll", roll);
  m.impl("unfold_backward", unfoldBackward);
  m.impl("channel_shuffle", channelShuffle);
  m.impl("bucketize.Tensor", bucketize);
  m.impl("searchsorted.Tensor", searchSorted);
  m.impl("tril_indices", triangleIndices<lowerCount>);
  m.impl("triu_indices", triangleIndices<upperCount>);
  m.impl("repeat_interleave.Tensor", repeatInterleave);
  m.impl("bucketize.Scalar", bucketizeScalar);
  m.impl("searchsorted.Scalar", searchSortedScalar);
  m.impl("nonzero_static", nonzeroStatic);
  m.impl("masked_scatter_backward", maskedScatterBackward);
}

TORCH_LIBRARY_IMPL(aten, AutogradMeta, m) { m.impl("one_hot", oneHot); }
