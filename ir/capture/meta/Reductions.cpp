//===- Reductions.cpp - Reductions without data ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/meta/Shapes.h"

#include <ATen/native/ReduceOpsUtils.h>

using namespace fsdp::meta;

static Tensor reduced(const Tensor &self, OptionalIntArrayRef dims,
                      bool keepdim, at::ScalarType dtype) {
  at::DimVector over = at::native::make_dim_vector(dims, self.dim());
  return contiguous(at::meta::get_reduction_shape(self, over, keepdim), self,
                    dtype);
}

/// Integers are summed as int64.
static at::ScalarType sumType(const Tensor &self,
                              std::optional<at::ScalarType> dtype) {
  if (dtype)
    return *dtype;
  at::ScalarType type = self.scalar_type();
  return at::isIntegralType(type, /*includeBool=*/true) ? at::kLong : type;
}

static Tensor scalar(const Tensor &self) { return contiguous({}, self); }

static Tensor prod(const Tensor &self, std::optional<at::ScalarType> dtype) {
  return contiguous({}, self, sumType(self, dtype));
}

static Tensor nansum(const Tensor &self, OptionalIntArrayRef dims, bool keepdim,
                     std::optional<at::ScalarType> dtype) {
  return reduced(self, dims, keepdim, sumType(self, dtype));
}

static Tensor countNonzero(const Tensor &self, IntArrayRef dims) {
  return reduced(self, dims, /*keepdim=*/false, at::kLong);
}

static Tensor variance(const Tensor &self, OptionalIntArrayRef dims,
                       const std::optional<Scalar> &, bool keepdim) {
  return reduced(self, dims, keepdim, at::toRealValueType(self.scalar_type()));
}

static Two varianceAndMean(const Tensor &self, OptionalIntArrayRef dims,
                           const std::optional<Scalar> &, bool keepdim) {
  return {reduced(self, dims, keepdim, at::toRealValueType(self.scalar_type())),
          reduced(self, dims, keepdim, self.scalar_type())};
}

static Two aminmax(const Tensor &self) { return {scalar(self), scalar(self)}; }

static Two aminmaxOverDim(const Tensor &self, int64_t dim, bool keepdim) {
  std::vector<int64_t> sizes = reducedSizes(self, dim, keepdim);
  return {contiguous(sizes, self), contiguous(sizes, self)};
}

static Tensor histogram(const Tensor &self, int64_t bins, const Scalar &,
                        const Scalar &) {
  return contiguous({bins}, self);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("max", scalar);
  m.impl("min", scalar);
  m.impl("median", scalar);
  m.impl("nanmedian", scalar);
  m.impl("prod", prod);
  m.impl("_aminmax", aminmax);
  m.impl("_aminmax.dim", aminmaxOverDim);
  m.impl("histc", histogram);
  m.impl("nansum", nansum);
  m.impl("count_nonzero.dim_IntList", countNonzero);
  m.impl("var.correction", variance);
  m.impl("std.correction", variance);
  m.impl("var_mean.correction", varianceAndMean);
  m.impl("std_mean.correction", varianceAndMean);
}
