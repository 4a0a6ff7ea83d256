//===- Matrix.cpp - Products and distances without data -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/Shapes.h"

#include <ATen/ExpandUtils.h>

using namespace fsdp::meta;

static Tensor dot(const Tensor &self, const Tensor &) {
  return contiguous({}, self);
}

static Tensor trace(const Tensor &self) {
  at::ScalarType type = self.scalar_type();
  return contiguous({}, self,
                    at::isIntegralType(type, /*includeBool=*/true) ? at::kLong
                                                                   : type);
}

static Tensor addbmm(const Tensor &self, const Tensor &batch1,
                     const Tensor &batch2, const Scalar &, const Scalar &) {
  return contiguous({batch1.size(1), batch2.size(2)}, self);
}

static Tensor cdistForward(const Tensor &x1, const Tensor &x2, double,
                           std::optional<int64_t>) {
  std::vector<int64_t> sizes = at::infer_size(
      x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2));
  sizes.push_back(x1.size(-2));
  sizes.push_back(x2.size(-2));
  return contiguous(sizes, x1);
}

static Tensor cdistBackward(const Tensor &, const Tensor &x1, const Tensor &x2,
                            double, const Tensor &) {
  std::vector<int64_t> sizes = at::infer_size(
      x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2));
  sizes.push_back(x1.size(-2));
  sizes.push_back(x1.size(-1));
  return contiguous(sizes, x1);
}

static Tensor pdistForward(const Tensor &self, double) {
  int64_t rows = self.size(0);
  return contiguous({rows > 1 ? rows * (rows - 1) / 2 : 0}, self);
}

static Tensor pdistBackward(const Tensor &, const Tensor &self, double,
                            const Tensor &) {
  return contiguousLike(self);
}

static Two weightNorm(const Tensor &v, const Tensor &g, int64_t) {
  // Norms of half types are kept in float.
  at::ScalarType type =
      at::isReducedFloatingType(g.scalar_type()) ? at::kFloat : g.scalar_type();
  return {contiguousLike(v), contiguous(g.sizes(), g, type)};
}

static Two weightNormBackward(const Tensor &, const Tensor &v, const Tensor &g,
                              const Tensor &, int64_t) {
  return {contiguousLike(v), contiguousLike(g)};
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("dot", dot);
  m.impl("vdot", dot);
  m.impl("trace", trace);
  m.impl("addbmm", addbmm);
  m.impl("_cdist_forward", cdistForward);
  m.impl("_cdist_backward", cdistBackward);
  m.impl("_pdist_forward", pdistForward);
  m.impl("_pdist_backward", pdistBackward);
  m.impl("_weight_norm_interface", weightNorm);
  m.impl("_weight_norm_interface_backward", weightNormBackward);
}
