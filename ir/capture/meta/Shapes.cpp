//===- Shapes.cpp - Results of operators without data ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/Shapes.h"

#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>

namespace fsdp::meta {

Tensor contiguous(IntArrayRef sizes, const Tensor &like) {
  return at::empty(sizes, like.options());
}

Tensor contiguous(IntArrayRef sizes, const Tensor &like, at::ScalarType dtype) {
  return at::empty(sizes, like.options().dtype(dtype));
}

Tensor contiguousLike(const Tensor &like) {
  return contiguous(like.sizes(), like);
}

Tensor inFormatOf(IntArrayRef sizes, const Tensor &like, const Tensor &format) {
  return at::empty(sizes, like.options(), format.suggest_memory_format());
}

static at::TensorIteratorConfig iterate(std::initializer_list<Tensor> inputs,
                                        const Tensor &out = {}) {
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).check_all_same_device(false);
  config.set_check_mem_overlap(false).add_owned_output(out);
  for (const Tensor &input : inputs)
    config.add_owned_const_input(input);
  return config;
}

Tensor pointwise(std::initializer_list<Tensor> inputs, at::ScalarType dtype) {
  return iterate(inputs)
      .declare_static_dtype_and_device(dtype, at::kMeta)
      .build()
      .output();
}

Tensor pointwise(std::initializer_list<Tensor> inputs, bool toFloat) {
  at::TensorIteratorConfig config = iterate(inputs);
  config.promote_inputs_to_common_dtype(true).declare_static_device(at::kMeta);
  if (toFloat)
    config.promote_integer_inputs_to_float(true);
  return config.build().output();
}

Tensor &pointwiseOut(std::initializer_list<Tensor> inputs, Tensor &out) {
  iterate(inputs, out).build();
  return out;
}

Tensor byColumns(IntArrayRef sizes, const Tensor &like, at::ScalarType dtype) {
  std::vector<int64_t> transposed = sizes.vec();
  std::iter_swap(transposed.end() - 1, transposed.end() - 2);
  return contiguous(transposed, like, dtype).transpose(-2, -1);
}

Tensor &takeLayout(Tensor &out, const Tensor &result) {
  if (out.sizes() == result.sizes())
    return out;
  int64_t extent = result.storage().nbytes() / result.itemsize();
  out.resize_({extent});
  out.as_strided_(result.sizes(), result.strides(), 0);
  return out;
}

Tensor reduceLoss(const Tensor &elements, int64_t reduction) {
  return reduction == 0 ? elements : contiguous({}, elements);
}

std::vector<int64_t> reducedSizes(const Tensor &self, int64_t dim,
                                  bool keepdim) {
  std::vector<int64_t> sizes = self.sizes().vec();
  if (sizes.empty())
    return sizes;
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (keepdim)
    sizes[dim] = 1;
  else
    sizes.erase(sizes.begin() + dim);
  return sizes;
}

} // namespace fsdp::meta
