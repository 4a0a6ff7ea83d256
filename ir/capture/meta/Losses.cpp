//===- Losses.cpp - Losses without data -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/Shapes.h"

using namespace fsdp::meta;

static Tensor mseLossBackward(const Tensor &, const Tensor &self,
                              const Tensor &, int64_t) {
  return contiguousLike(self);
}

/// The functional overload is composite and has allocated `result`.
static Tensor &elementBackwardOut(const Tensor &, const Tensor &,
                                  const Tensor &, int64_t, double,
                                  Tensor &result) {
  return result;
}

static Tensor huberLoss(const Tensor &self, const Tensor &target,
                        int64_t reduction, double) {
  return reduceLoss(pointwise({self, target}), reduction);
}

static Tensor binaryCrossEntropy(const Tensor &self, const Tensor &,
                                 const OptionalTensor &, int64_t reduction) {
  return reduceLoss(at::empty_like(self), reduction);
}

static Tensor binaryCrossEntropyBackward(const Tensor &, const Tensor &self,
                                         const Tensor &, const OptionalTensor &,
                                         int64_t) {
  return at::empty_like(self);
}

static Two nllLoss2dForward(const Tensor &self, const Tensor &target,
                            const OptionalTensor &, int64_t reduction,
                            int64_t) {
  Tensor total = contiguous({}, self);
  if (reduction != 0)
    return {contiguous({}, self), total};
  return {contiguous({self.size(0), self.size(2), self.size(3)}, self), total};
}

static Tensor nllLoss2dBackward(const Tensor &, const Tensor &self,
                                const Tensor &, const OptionalTensor &, int64_t,
                                int64_t, const Tensor &) {
  return contiguousLike(self);
}

static Tensor multiMarginLoss(const Tensor &self, const Tensor &target,
                              const Scalar &, const Scalar &,
                              const OptionalTensor &, int64_t reduction) {
  return reduceLoss(contiguous(target.sizes(), self), reduction);
}

static Tensor multiMarginLossBackward(const Tensor &, const Tensor &self,
                                      const Tensor &, const Scalar &,
                                      const Scalar &, const OptionalTensor &,
                                      int64_t) {
  return contiguousLike(self);
}

static Tensor multilabelMarginLossBackward(const Tensor &, const Tensor &self,
                                           const Tensor &, int64_t,
                                           const Tensor &) {
  return contiguousLike(self);
}

static Two multilabelMarginLossForward(const Tensor &self, const Tensor &target,
                                       int64_t reduction) {
  Tensor loss = reduction == 0 && target.dim() == 2
                    ? contiguous({target.size(0)}, self)
                    : contiguous({}, self);
  return {loss, contiguous(target.sizes(), self)};
}

/// With lengths as numbers. Those in tensors decide about the forward's shapes,
/// which therefore depend on data.
static Tensor ctcLossBackward(const Tensor &, const Tensor &logProbs,
                              const Tensor &, IntArrayRef, IntArrayRef,
                              const Tensor &, const Tensor &, int64_t, bool) {
  return contiguousLike(logProbs);
}

static Two ctcLossOfTensors(const Tensor &, const Tensor &, const Tensor &,
                            const Tensor &, int64_t, bool) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "ctc_loss with lengths in tensors: the shape of what its backward "
             "needs depends on data; pass them as tuples of numbers");
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_ctc_loss.Tensor", ctcLossOfTensors);
  m.impl("_ctc_loss_backward", ctcLossBackward);
  m.impl("mse_loss_backward", mseLossBackward);
  m.impl("smooth_l1_loss_backward.grad_input", elementBackwardOut);
  m.impl("huber_loss_backward.out", elementBackwardOut);
  m.impl("huber_loss", huberLoss);
  m.impl("binary_cross_entropy", binaryCrossEntropy);
  m.impl("binary_cross_entropy_backward", binaryCrossEntropyBackward);
  m.impl("nll_loss2d_forward", nllLoss2dForward);
  m.impl("nll_loss2d_backward", nllLoss2dBackward);
  m.impl("multi_margin_loss", multiMarginLoss);
  m.impl("multi_margin_loss_backward", multiMarginLossBackward);
  m.impl("multilabel_margin_loss_backward", multilabelMarginLossBackward);
  m.impl("multilabel_margin_loss_forward", multilabelMarginLossForward);
}
