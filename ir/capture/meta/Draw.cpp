//===- Draw.cpp - The operator that draws are recorded as -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `fsdp::draw` is what random operators become below autograd. It exists while
// a program is captured only: there it has shapes, and in the program it is
// `fsdp.draw`.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/Shapes.h"

#include <ATen/core/List.h>
#include <ATen/ops/empty_strided.h>

using namespace fsdp::meta;

static Tensor draw(const Tensor &random, at::TensorList, std::string_view,
                   c10::ArrayRef<double>, IntArrayRef, int64_t,
                   IntArrayRef sizes, IntArrayRef strides,
                   at::ScalarType dtype) {
  return at::empty_strided(sizes, strides, random.options().dtype(dtype));
}

/// Derivatives of samples by their parameters.
static Tensor gammaGradient(const Tensor &self, const Tensor &output) {
  return pointwise({self, output}, self.scalar_type());
}

static Tensor dirichletGradient(const Tensor &x, const Tensor &alpha,
                                const Tensor &total) {
  return pointwise({x, alpha, total}, x.scalar_type());
}

TORCH_LIBRARY_FRAGMENT(fsdp, m) {
  m.def("draw(Tensor random, Tensor[] given, str distribution, "
        "float[] numbers, int[] range, int site, int[] size, int[] stride, "
        "ScalarType dtype) -> Tensor");
}

TORCH_LIBRARY_IMPL(fsdp, Meta, m) { m.impl("draw", draw); }

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_standard_gamma_grad", gammaGradient);
  m.impl("_dirichlet_grad", dirichletGradient);
}
