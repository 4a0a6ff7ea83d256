//===- GreatestValueTest.cpp - The greatest absolute value ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/GreatestValue.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace fsdp;

namespace {

float find(const at::Tensor &tensor) {
  return findGreatest(
      {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())});
}

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(GreatestValue, IsTheNormOfOrderInf) {
  // Less than a vector, some vectors and a rest, more than a thread's piece.
  for (int64_t size : {1, 3, 16, 37, 1000, 70001})
    for (int sign : {1, -1}) {
      at::Tensor tensor = at::randn({size}).mul_(1e-20);
      tensor.data_ptr<float>()[size / 2] = static_cast<float>(sign) * 0.25f;
      EXPECT_EQ(find(tensor), 0.25f);
      EXPECT_EQ(find(tensor),
                at::linalg_vector_norm(tensor, kInf).item<float>());
    }
}

TEST(GreatestValue, SeesWhatIsNoNumber) {
  at::Tensor tensor = at::randn({100});
  tensor.data_ptr<float>()[99] = -kInf;
  EXPECT_EQ(find(tensor), kInf);
  for (int64_t at : {0, 50, 98}) {
    at::Tensor other = tensor.clone();
    other.data_ptr<float>()[at] = std::nanf("");
    EXPECT_TRUE(std::isnan(find(other))) << at;
    other.data_ptr<float>()[at] = -std::nanf("");
    EXPECT_TRUE(std::isnan(find(other))) << at;
  }
}

TEST(GreatestValue, OfZerosAndSmallNumbers) {
  EXPECT_EQ(findGreatest({}), 0);
  std::vector<float> values{-0.0f, 0.0f};
  EXPECT_EQ(findGreatest(values), 0);
  EXPECT_FALSE(std::signbit(findGreatest(values)));
  values.push_back(-std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(findGreatest(values), std::numeric_limits<float>::denorm_min());
}

} // namespace
