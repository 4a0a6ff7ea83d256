//===- Shapes.h - Results of operators without data -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Capture runs a model on meta tensors, which have sizes, strides and a dtype
// but no data. LibTorch lacks meta kernels in C++ for many operators; the files
// in this folder register them, one family a file. The contract of each kernel:
// its results have exactly the sizes, strides and dtype that the CPU kernel of
// this LibTorch gives for arguments that the CPU kernel accepts.
// test/unit/ir/capture/meta compares the two. Arguments were checked when the
// model was exported; kernels check only what they rely on.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_META_SHAPES_H
#define FSDP_IR_CAPTURE_META_SHAPES_H

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <array>
#include <initializer_list>
#include <optional>
#include <tuple>

namespace fsdp::meta {

using at::IntArrayRef;
using at::OptionalIntArrayRef;
using at::Scalar;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

/// A contiguous tensor.
Tensor contiguous(IntArrayRef sizes, const Tensor &like);
Tensor contiguous(IntArrayRef sizes, const Tensor &like, at::ScalarType dtype);

/// Contiguous, with the sizes and the dtype of `like`.
Tensor contiguousLike(const Tensor &like);

/// Dense in the memory format (contiguous or channels last) that `format`
/// suggests.
Tensor inFormatOf(IntArrayRef sizes, const Tensor &like, const Tensor &format);

/// A batch of matrices, each stored by columns.
Tensor byColumns(IntArrayRef sizes, const Tensor &like, at::ScalarType dtype);

/// Gives `out`, which an operator writes to, the layout of `result` unless it
/// has its sizes already.
Tensor &takeLayout(Tensor &out, const Tensor &result);

/// What TensorIterator allocates for a pointwise operator over `inputs`: the
/// broadcast shape, in the inputs' memory order.
Tensor pointwise(std::initializer_list<Tensor> inputs, at::ScalarType dtype);

/// The same with the dtype that `inputs` promote to; integers become floating
/// if `toFloat`.
Tensor pointwise(std::initializer_list<Tensor> inputs, bool toFloat = false);

/// The same for an operator that writes to `out`, which gets the result's shape
/// if it is empty.
Tensor &pointwiseOut(std::initializer_list<Tensor> inputs, Tensor &out);

/// The result of a loss: `elements` if reduction is None (0), else a scalar.
Tensor reduceLoss(const Tensor &elements, int64_t reduction);

/// Sizes after a reduction over `dim`.
std::vector<int64_t> reducedSizes(const Tensor &self, int64_t dim,
                                  bool keepdim);

/// True if the operator was given this optional tensor.
inline bool given(const OptionalTensor &tensor) {
  return tensor.has_value() && tensor->defined();
}

/// The body of an operator that writes to an argument: nothing to compute.
template <class... Arguments>
Tensor &inPlace(Tensor &self, Arguments...) {
  return self;
}

} // namespace fsdp::meta

#endif // FSDP_IR_CAPTURE_META_SHAPES_H
