//===- Dropout.cpp - Dropout without data ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Only on GPUs LibTorch computes dropout with one operator that keeps a mask of
// bools for the backward pass; elsewhere it keeps scaled noise of the input's
// type. Programs do it the first way on every device: a byte an element.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/Shapes.h"

#include <ATen/ops/dropout_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_dropout.h>

using namespace fsdp::meta;

/// Whether something is drawn, and not everything dropped.
static bool isPartial(const Tensor &input, double p, bool train) {
  return train && p > 0 && p < 1 && input.numel() != 0;
}

static Tensor dropout(const Tensor &input, double p, bool train) {
  if (!isPartial(input, p, train))
    return at::compositeimplicitautograd::dropout(input, p, train);
  return std::get<0>(at::native_dropout(input, p, train));
}

static Tensor &dropoutInPlace(Tensor &input, double p, bool train) {
  if (!isPartial(input, p, train))
    return at::compositeimplicitautograd::dropout_(input, p, train);
  Tensor mask = at::empty_like(input, input.options().dtype(at::kBool));
  mask.bernoulli_(1 - p);
  return input.mul_(mask).mul_(1 / (1 - p));
}

TORCH_LIBRARY_IMPL(aten, AutogradMeta, m) {
  m.impl("dropout", dropout);
  m.impl("dropout_", dropoutInPlace);
}
