//===- MathTest.cpp - How exact the functions of kernels are --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// FSDP_KERNEL_FLOATS in the environment: each so many-th float is tried; 1
// takes minutes.
//
//===----------------------------------------------------------------------===//

#include "kernels/Interpreter.h"
#include "test/unit/kernels/Programs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

using namespace fsdp;
using plan::DType;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

class Function {
public:
  explicit Function(KernelOpKind kind) : builder({}) {
    uint32_t x = builder.load(DType::f32, kMost);
    builder.store(DType::f32, builder.op(kind, {x}));
  }
  std::vector<float> operator()(std::vector<float> x) const {
    std::vector<float> y(x.size());
    void *operands[] = {x.data(), y.data()};
    interpret(builder.program, operands, 0, int64_t(x.size()));
    return y;
  }
  float operator()(float x) const { return (*this)(std::vector{x})[0]; }

  static constexpr size_t kMost = 4096;

private:
  ProgramBuilder builder;
};

} // namespace

/// Distance in units of the last digit that f32 has at `exact`, or of the least
/// subnormal number; what is infinite counts as 2^128.
static double distance(float found, double exact) {
  if (std::isnan(exact) || std::isnan(found))
    return std::isnan(exact) && std::isnan(found) ? 0 : kInfinity;
  exact = std::clamp(exact, -0x1p128, 0x1p128);
  double number = std::clamp(double(found), -0x1p128, 0x1p128);
  int exponent = exact == 0 ? -126 : std::max(std::ilogb(exact), -126);
  return std::abs(number - exact) /
         std::ldexp(1.0, std::min(exponent, 127) - 23);
}

/// The most of all floats of a sample.
static double mostOf(KernelOpKind kind, double (*exact)(double)) {
  const char *wanted = std::getenv("FSDP_KERNEL_FLOATS");
  uint64_t step = wanted ? std::strtoull(wanted, nullptr, 10) : 9973;
  Function function(kind);
  double most = 0;
  std::vector<float> x;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32;) {
    x.clear();
    for (; x.size() < Function::kMost && bits < uint64_t{1} << 32; bits += step)
      x.push_back(std::bit_cast<float>(uint32_t(bits)));
    std::vector<float> y = function(x);
    for (size_t i = 0; i < x.size(); ++i) {
      double error = distance(y[i], exact(x[i]));
      EXPECT_FALSE(std::isinf(error))
          << x[i] << " becomes " << y[i] << ", not " << exact(x[i]);
      if (std::isinf(error))
        return error;
      most = std::max(most, error);
    }
  }
  testing::Test::RecordProperty("ulp", std::to_string(most));
  return most;
}

TEST(KernelMath, Exp) {
  EXPECT_LE(mostOf(KernelOpKind::exp, std::exp), 1.01);
  Function exp(KernelOpKind::exp);
  EXPECT_EQ(exp(0), 1);
  EXPECT_EQ(exp(-0.0f), 1);
  EXPECT_EQ(exp(kInfinity), kInfinity);
  EXPECT_EQ(exp(-kInfinity), 0);
  EXPECT_EQ(exp(88.8f), kInfinity);
  EXPECT_TRUE(std::isfinite(exp(88.7f)));
  EXPECT_EQ(exp(-104), 0);
  EXPECT_GT(exp(-103.2f), 0); // subnormal
  EXPECT_TRUE(std::isnan(exp(kNan)));
}

TEST(KernelMath, Log) {
  EXPECT_LE(mostOf(KernelOpKind::log, std::log), 0.9);
  Function log(KernelOpKind::log);
  EXPECT_EQ(log(1), 0);
  EXPECT_EQ(log(0), -kInfinity);
  EXPECT_EQ(log(-0.0f), -kInfinity);
  EXPECT_EQ(log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(log(-1e-40f)));
  EXPECT_TRUE(std::isnan(log(-kInfinity)));
  EXPECT_TRUE(std::isnan(log(kNan)));
}

/// f(-x) is -f(x) and f has the sign of zeros; `end` is f of infinity.
static void checkOdd(KernelOpKind kind, float end) {
  Function function(kind);
  EXPECT_FALSE(std::signbit(function(0)));
  EXPECT_EQ(function(0), 0);
  EXPECT_TRUE(std::signbit(function(-0.0f)));
  EXPECT_EQ(function(kInfinity), end);
  EXPECT_EQ(function(-kInfinity), -end);
  EXPECT_TRUE(std::isnan(function(kNan)));
  EXPECT_EQ(function(1e-41f),
            1e-41f * float(kind == KernelOpKind::erf ? 1.1283792 : 1));
  for (float x = 1e-3f; x < 20; x *= 1.01f)
    EXPECT_EQ(function(-x), -function(x)) << x;
}

TEST(KernelMath, Tanh) {
  EXPECT_LE(mostOf(KernelOpKind::tanh, std::tanh), 1.3);
  checkOdd(KernelOpKind::tanh, 1);
}

TEST(KernelMath, Erf) {
  EXPECT_LE(mostOf(KernelOpKind::erf, std::erf), 1.1);
  checkOdd(KernelOpKind::erf, 1);
}

TEST(KernelMath, RoundsHalvesToEvenDigits) {
  Function bf16(KernelOpKind::round_bf16), f16(KernelOpKind::round_f16);
  EXPECT_EQ(bf16(1 + 0x1p-8f), 1);
  EXPECT_EQ(bf16(1 + 3 * 0x1p-8f), 1 + 0x1p-6f);
  EXPECT_EQ(bf16(1 + 0x1p-8f + 0x1p-20f), 1 + 0x1p-7f);
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()), kInfinity);
  EXPECT_EQ(bf16(0x1p-133f), 0x1p-133f);
  EXPECT_EQ(std::bit_cast<uint32_t>(bf16(-kNan)), 0x7fc00000u);
  EXPECT_EQ(f16(65519), 65504);
  EXPECT_EQ(f16(65520), kInfinity);
  EXPECT_EQ(f16(-65520), -kInfinity);
  EXPECT_EQ(f16(0x1p-25f), 0);
  EXPECT_EQ(f16(3 * 0x1p-25f), 0x1p-23f);
  EXPECT_TRUE(std::signbit(f16(-0x1p-30f)));
  EXPECT_EQ(std::bit_cast<uint32_t>(f16(-kNan)), 0x7fc00000u);
}

/// Each half, and what lies between two, against the compiler's conversion.
TEST(KernelMath, RoundsToF16AsProcessorsDo) {
  Function f16(KernelOpKind::round_f16);
  std::vector<float> x;
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    auto here = float(std::bit_cast<_Float16>(uint16_t(bits)));
    auto next = float(std::bit_cast<_Float16>(uint16_t(bits + 1)));
    if (std::isinf(next))
      next = 65536;
    float middle = (here + next) / 2;
    for (float each : {here, middle, std::nextafter(middle, 0.0f),
                       std::nextafter(middle, 1e9f)})
      x.insert(x.end(), {each, -each});
  }
  for (size_t i = 0; i < x.size(); i += Function::kMost) {
    std::vector<float> part(x.begin() + long(i),
                            x.begin() +
                                long(std::min(i + Function::kMost, x.size())));
    std::vector<float> y = f16(part);
    for (size_t c = 0; c < part.size(); ++c)
      ASSERT_EQ(std::bit_cast<uint32_t>(y[c]),
                std::bit_cast<uint32_t>(float(_Float16(part[c]))))
          << part[c];
  }
}
