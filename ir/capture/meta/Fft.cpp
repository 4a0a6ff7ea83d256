//===- Fft.cpp - Fourier transforms without data --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MKL writes a transform as it computed it, batch first, and the result is a
// permuted view of that; pocketfft, which LibTorch uses where it has no MKL,
// writes contiguous results. CUDA's library permutes in yet another way.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/Shapes.h"
#include "ir/capture/meta/TargetScope.h"

#include <ATen/Context.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <numeric>

using namespace fsdp::meta;

/// Dimensions by falling stride, but for the last one if `keepLast`.
static std::vector<int64_t> byStride(const Tensor &self, IntArrayRef dims,
                                     bool keepLast = false) {
  std::vector<int64_t> sorted = dims.vec();
  std::sort(sorted.begin(), sorted.end() - keepLast, [&](int64_t a, int64_t b) {
    return self.stride(a) > self.stride(b);
  });
  return sorted;
}

/// A transform over `dims`, in that order: the others come first in memory, by
/// falling stride of the input.
static Tensor transformed(const Tensor &self, IntArrayRef sizes,
                          IntArrayRef dims, at::ScalarType dtype) {
  if (!isForCuda() && !at::hasMKL())
    return contiguous(sizes, self, dtype);
  std::vector<int64_t> order(self.dim());
  std::iota(order.begin(), order.end(), 0);
  auto batchEnd = std::partition(order.begin(), order.end(), [&](int64_t dim) {
    return std::find(dims.begin(), dims.end(), dim) == dims.end();
  });
  std::sort(order.begin(), batchEnd, [&](int64_t a, int64_t b) {
    return self.stride(a) > self.stride(b);
  });
  std::copy(dims.begin(), dims.end(), batchEnd);
  std::vector<int64_t> strides(order.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= std::max<int64_t>(sizes[order[i]], 1);
  }
  return at::empty_strided(sizes, strides, self.options().dtype(dtype));
}

static Tensor complexToComplex(const Tensor &self, IntArrayRef dims, int64_t,
                               bool) {
  if (dims.empty())
    return at::empty_like(self);
  return transformed(self, self.sizes(), byStride(self, dims),
                     self.scalar_type());
}

static Tensor realToComplex(const Tensor &self, IntArrayRef dims, int64_t,
                            bool oneSided) {
  std::vector<int64_t> sizes = self.sizes().vec();
  if (oneSided)
    sizes[dims.back()] = sizes[dims.back()] / 2 + 1;
  return transformed(self, sizes, byStride(self, dims, /*keepLast=*/true),
                     at::toComplexType(self.scalar_type()));
}

/// cuFFT transforms up to three dimensions at once, of a contiguous copy, which
/// it may overwrite (SpectralOps.cpp, _fft_c2r_cufft).
static bool isOneTransform(IntArrayRef dims) {
  return isForCuda() && dims.size() <= 3 &&
         !(dims.size() >= 2 && dims[0] == 0 && dims[1] == 1);
}

/// All dimensions but the last are transformed among complex numbers first.
static Tensor complexToReal(const Tensor &self, IntArrayRef dims,
                            int64_t normalization, int64_t lastSize) {
  if (isOneTransform(dims)) {
    std::vector<int64_t> sizes = self.sizes().vec();
    sizes[dims.back()] = lastSize;
    return transformed(contiguousLike(self), sizes, dims,
                       at::toRealValueType(self.scalar_type()));
  }
  Tensor input = self;
  if (dims.size() > 1)
    input = complexToComplex(self, dims.slice(0, dims.size() - 1),
                             normalization, false);
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes[dims.back()] = lastSize;
  return transformed(input, sizes, dims.slice(dims.size() - 1),
                     at::toRealValueType(self.scalar_type()));
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_fft_c2c", complexToComplex);
  m.impl("_fft_r2c", realToComplex);
  m.impl("_fft_c2r", complexToReal);
}
