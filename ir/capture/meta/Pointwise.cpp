//===- Pointwise.cpp - Pointwise operators without data -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/Shapes.h"
#include "ir/capture/meta/TargetScope.h"

#include <ATen/ops/result_type.h>

using namespace fsdp::meta;

static Tensor unary(const Tensor &self) { return pointwise({self}); }

static Tensor gradientOfUnary(const Tensor &gradient, const Tensor &self) {
  return pointwise({gradient, self});
}

static Tensor where(const Tensor &condition, const Tensor &self,
                    const Tensor &other) {
  return pointwise({condition, self, other}, at::result_type(self, other));
}

static Tensor angle(const Tensor &self) {
  at::ScalarType type = self.scalar_type();
  return pointwise({self}, at::isComplexType(type) ? at::toRealValueType(type)
                           : at::isFloatingType(type)
                               ? type
                               : at::get_default_dtype_as_scalartype());
}

static Tensor isNan(const Tensor &self) { return pointwise({self}, at::kBool); }

static Tensor logit(const Tensor &self, std::optional<double>) {
  return pointwise({self}, /*toFloat=*/true);
}

static Tensor hardtanh(const Tensor &self, const Scalar &, const Scalar &) {
  return pointwise({self});
}

static Tensor hardtanhBackward(const Tensor &gradient, const Tensor &self,
                               const Scalar &, const Scalar &) {
  return pointwise({gradient, self});
}

static Two logSigmoidForward(const Tensor &self) {
  // Only the CPU keeps something for the backward pass.
  if (isForCuda())
    return {contiguousLike(self), contiguous({0}, self)};
  return {contiguousLike(self), contiguousLike(self)};
}

static Tensor logSigmoidBackward(const Tensor &gradient, const Tensor &self,
                                 const Tensor &) {
  return pointwise({gradient, self});
}

static Tensor gluBackward(const Tensor &, const Tensor &self, int64_t) {
  return contiguousLike(self);
}

static Two preluBackward(const Tensor &gradient, const Tensor &self,
                         const Tensor &weight) {
  Tensor input = pointwise({self, weight, gradient});
  return {input, at::empty_like(input)};
}

static Tensor binary(const Tensor &self, const Tensor &other) {
  return pointwise({self, other});
}

static Tensor rsub(const Tensor &self, const Tensor &other, const Scalar &) {
  return pointwise({self, other});
}

static Tensor shiftScalar(const Tensor &self, const Scalar &) {
  return pointwise({self});
}

static Two nativeDropout(const Tensor &input, double, std::optional<bool>) {
  // The CPU leaves the mask of an empty input as it was allocated.
  return {at::empty_like(input), input.numel()
                                     ? at::empty_like(input, at::kBool)
                                     : at::empty_like(input)};
}

static Tensor nativeDropoutBackward(const Tensor &gradient, const Tensor &mask,
                                    double) {
  return pointwise({gradient, mask}, gradient.scalar_type());
}

static Tensor addRelu(const Tensor &self, const Tensor &other, const Scalar &) {
  return pointwise({self, other});
}

static Tensor addReluScalar(const Tensor &self, const Scalar &,
                            const Scalar &) {
  return pointwise({self});
}

/// The number takes part in promotion as a wrapped one.
static Tensor remainderOfScalar(const Scalar &self, const Tensor &other) {
  return pointwise({other}, at::result_type(self, other));
}

static Tensor gammaGradient(const Tensor &self, const Tensor &) {
  return contiguousLike(self);
}

static Tensor dirichletGradient(const Tensor &x, const Tensor &,
                                const Tensor &) {
  return contiguousLike(x);
}

static Tensor rreluWithNoise(const Tensor &self, Tensor &, const Scalar &,
                             const Scalar &, bool,
                             std::optional<at::Generator>) {
  return contiguousLike(self);
}

static std::tuple<Tensor &, Tensor &>
frexpOut(const Tensor &self, Tensor &mantissa, Tensor &exponent) {
  return {pointwiseOut({self}, mantissa), pointwiseOut({self}, exponent)};
}

/// The functional overloads of these are composite and call the ones that write
/// to a result.
static Tensor &unaryOut(const Tensor &self, Tensor &out) {
  return pointwiseOut({self}, out);
}

static Tensor &binaryOut(const Tensor &self, const Tensor &other, Tensor &out) {
  return pointwiseOut({self, other}, out);
}

static Tensor &nanToNumOut(const Tensor &self, std::optional<double>,
                           std::optional<double>, std::optional<double>,
                           Tensor &out) {
  return pointwiseOut({self}, out);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("where.self", where);
  m.impl("abs.out", unaryOut);
  m.impl("conj_physical.out", unaryOut);
  m.impl("logical_not.out", unaryOut);
  m.impl("logical_and.out", binaryOut);
  m.impl("logical_or.out", binaryOut);
  m.impl("logical_xor.out", binaryOut);
  m.impl("complex.out", binaryOut);
  m.impl("polar.out", binaryOut);
  m.impl("nan_to_num.out", nanToNumOut);
  m.impl("frexp.Tensor_out", frexpOut);
  m.impl("_add_relu.Tensor", addRelu);
  m.impl("_add_relu.Scalar", addReluScalar);
  m.impl("remainder.Scalar_Tensor", remainderOfScalar);
  m.impl("_standard_gamma_grad", gammaGradient);
  m.impl("_dirichlet_grad", dirichletGradient);
  m.impl("rrelu_with_noise", rreluWithNoise);
  m.impl("relu", unary);
  m.impl("relu_", inPlace<>);
  m.impl("hardswish", unary);
  m.impl("hardswish_", inPlace<>);
  m.impl("hardswish_backward", gradientOfUnary);
  m.impl("hardtanh", hardtanh);
  m.impl("hardtanh_", inPlace<const Scalar &, const Scalar &>);
  m.impl("hardtanh_backward", hardtanhBackward);
  m.impl("log_sigmoid_forward", logSigmoidForward);
  m.impl("log_sigmoid_backward", logSigmoidBackward);
  m.impl("glu_backward", gluBackward);
  m.impl("_prelu_kernel", binary);
  m.impl("_prelu_kernel_backward", preluBackward);
  m.impl("angle", angle);
  m.impl("isnan", isNan);
  m.impl("logit", logit);
  m.impl("floor_divide", binary);
  m.impl("floor_divide_.Tensor", inPlace<const Tensor &>);
  m.impl("rsub.Tensor", rsub);
  m.impl("__lshift__.Tensor", binary);
  m.impl("__lshift__.Scalar", shiftScalar);
  m.impl("__rshift__.Tensor", binary);
  m.impl("__rshift__.Scalar", shiftScalar);
  m.impl("native_dropout", nativeDropout);
  m.impl("native_dropout_backward", nativeDropoutBackward);
}
