//===- Sorting.cpp - Order statistics without data ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/Shapes.h"

using namespace fsdp::meta;

static Two valuesAndIndices(const Tensor &self, int64_t dim, bool keepdim) {
  std::vector<int64_t> sizes = reducedSizes(self, dim, keepdim);
  return {contiguous(sizes, self), contiguous(sizes, self, at::kLong)};
}

static std::tuple<Tensor &, Tensor &> resize(const Tensor &self, int64_t dim,
                                             bool keepdim, Tensor &values,
                                             Tensor &indices) {
  std::vector<int64_t> sizes = reducedSizes(self, dim, keepdim);
  values.resize_(sizes);
  indices.resize_(sizes);
  return {values, indices};
}

/// The functional overloads of `median` and `kthvalue` are composite and call
/// these.
static std::tuple<Tensor &, Tensor &> medianOut(const Tensor &self, int64_t dim,
                                                bool keepdim, Tensor &values,
                                                Tensor &indices) {
  return resize(self, dim, keepdim, values, indices);
}

static std::tuple<Tensor &, Tensor &> kthvalueOut(const Tensor &self, int64_t,
                                                  int64_t dim, bool keepdim,
                                                  Tensor &values,
                                                  Tensor &indices) {
  return resize(self, dim, keepdim, values, indices);
}

static Two mode(const Tensor &self, int64_t dim, bool keepdim) {
  return valuesAndIndices(self, dim, keepdim);
}

/// `cummax` and `cummin` have allocated both results.
static void cumulativeHelper(const Tensor &, Tensor &, Tensor &, int64_t) {}

static Tensor logCumulativeSumExp(const Tensor &self, int64_t) {
  return contiguousLike(self);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("median.dim_values", medianOut);
  m.impl("nanmedian.dim_values", medianOut);
  m.impl("kthvalue.values", kthvalueOut);
  m.impl("mode", mode);
  m.impl("_cummax_helper", cumulativeHelper);
  m.impl("_cummin_helper", cumulativeHelper);
  m.impl("_logcumsumexp", logCumulativeSumExp);
}
