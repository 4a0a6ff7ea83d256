//===- Samples.h - Tensors that operators are tried on ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_PASSES_KERNELS_SAMPLES_H
#define FSDP_TEST_UNIT_PASSES_KERNELS_SAMPLES_H

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <limits>
#include <string>
#include <vector>

namespace fsdp::test {

using Sizes = std::vector<int64_t>;

/// Normal numbers; with `special`, zeros of both signs, infinities and a NaN
/// are among them.
inline at::Tensor sample(const Sizes &sizes, at::ScalarType dtype,
                         bool special = false) {
  [[maybe_unused]] static const bool isSeeded =
      (at::manual_seed(std::getenv("SEED") ? std::atoi(std::getenv("SEED"))
                                           : 1),
       true);
  if (dtype == at::kBool)
    return at::randint(0, 2, sizes).to(at::kBool);
  if (!at::isFloatingType(dtype))
    return at::randint(-5, 6, sizes).to(dtype);
  at::Tensor tensor = (at::randn(sizes) * 2).to(dtype);
  if (special && tensor.numel() > 40) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double values[] = {0.,
                             -0.,
                             kInfinity,
                             -kInfinity,
                             30,
                             -30,
                             std::numeric_limits<double>::quiet_NaN()};
    at::Tensor flat = tensor.view({-1});
    for (size_t i = 0; i < std::size(values); ++i)
      flat[int64_t(5 * i + 1)].fill_(values[i]);
  }
  return tensor;
}

/// The same elements in various places.
inline std::vector<at::Tensor> listLayouts(at::ScalarType dtype,
                                           bool special = false) {
  return {
      sample({3, 5, 37}, dtype, special),
      sample({300}, dtype, special),
      sample({37, 6}, dtype, special).t(),
      sample({4, 64}, dtype, special).slice(1, 3, 40),
      sample({2, 7, 3, 8}, dtype, special).transpose(1, 2),
      sample({2, 9, 8}, dtype, special).slice(1, 0, 9, 2),
      sample({}, dtype),
      sample({1}, dtype),
  };
}

inline const std::vector<at::ScalarType> &listFloats() {
  static const std::vector<at::ScalarType> all{at::kFloat, at::kBFloat16,
                                               at::kHalf};
  return all;
}

inline std::string nameOf(at::ScalarType dtype) { return at::toString(dtype); }

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_PASSES_KERNELS_SAMPLES_H
