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

TORCH_LIBRARY_FRAGMENT(fsdp, m) {
  m.def("draw(Tensor random, Tensor[] given, str distribution, "
        "float[] numbers, int[] range, int site, int[] size, int[] stride, "
        "ScalarType dtype) -> Tensor");
}

TORCH_LIBRARY_IMPL(fsdp, Meta, m) { m.impl("draw", draw); }
