//===- Segments.cpp - Segments and ragged rows without data ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/Shapes.h"

using namespace fsdp::meta;

static Tensor segmentReduce(const Tensor &data, std::string_view,
                            const OptionalTensor &lengths,
                            const OptionalTensor &,
                            const OptionalTensor &offsets, int64_t axis, bool,
                            const std::optional<Scalar> &) {
  const Tensor &bounds = given(lengths) ? *lengths : *offsets;
  std::vector<int64_t> sizes = bounds.sizes().vec();
  if (!given(lengths))
    --sizes.back();
  IntArrayRef rest = data.sizes().slice(axis + 1);
  sizes.insert(sizes.end(), rest.begin(), rest.end());
  return contiguous(sizes, data);
}

static Tensor segmentReduceBackward(const Tensor &, const Tensor &,
                                    const Tensor &data, std::string_view,
                                    const OptionalTensor &,
                                    const OptionalTensor &, int64_t,
                                    const std::optional<Scalar> &) {
  return contiguousLike(data);
}

static Tensor jaggedToPadded(const Tensor &values, at::TensorList offsets,
                             IntArrayRef lengths, double) {
  std::vector<int64_t> sizes = {offsets[0].size(0) - 1};
  sizes.insert(sizes.end(), lengths.begin(), lengths.end());
  IntArrayRef rest = values.sizes().slice(1);
  sizes.insert(sizes.end(), rest.begin(), rest.end());
  return contiguous(sizes, values);
}

static Tensor paddedToJagged(const Tensor &dense, at::TensorList offsets,
                             std::optional<int64_t> total) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      total, "_padded_dense_to_jagged_forward without total_L: its result's "
             "size depends on data");
  std::vector<int64_t> sizes = {*total};
  IntArrayRef rest = dense.sizes().slice(1 + offsets.size());
  sizes.insert(sizes.end(), rest.begin(), rest.end());
  return contiguous(sizes, dense);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("segment_reduce", segmentReduce);
  m.impl("_segment_reduce_backward", segmentReduceBackward);
  m.impl("_jagged_to_padded_dense_forward", jaggedToPadded);
  m.impl("_padded_dense_to_jagged_forward", paddedToJagged);
}
