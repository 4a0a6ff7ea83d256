//===- Copy.cpp - Functional copies that autograd knows -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `copy`, which torch.export's decompositions put in the place of `copy_`, has
// no derivative; `copy_` has.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/Shapes.h"

#include <ATen/ops/empty_like.h>

using namespace fsdp::meta;

static Tensor copy(const Tensor &self, const Tensor &source, bool nonBlocking) {
  return at::empty_like(self).copy_(source, nonBlocking);
}

TORCH_LIBRARY_IMPL(aten, AutogradMeta, m) { m.impl("copy", copy); }
