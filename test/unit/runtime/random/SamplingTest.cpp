//===- SamplingTest.cpp - Draws have the right distributions --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Draws are functions: each test computes the same numbers every time, so that
// five standard errors are passed for ever or never.
//
//===----------------------------------------------------------------------===//

#include "runtime/random/Sampling.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace fsdp;
using Kind = plan::Distribution;

namespace {

constexpr int64_t kCount = 1 << 16;

at::Tensor draw(DrawParameters parameters, std::vector<int64_t> sizes,
                at::ScalarType dtype, uint32_t site = 0, int64_t seed = 3,
                int64_t offset = 0, int rank = 0) {
  at::Tensor output = at::empty(sizes, dtype);
  sample(parameters, RandomSequence(seed, offset, rank, site), output);
  return output;
}

at::Tensor uniform(int64_t count, uint32_t site = 0, int64_t seed = 3,
                   int64_t offset = 0, int rank = 0) {
  return draw({Kind::uniform, {0, 1}}, {count}, at::kFloat, site, seed, offset,
              rank);
}

/// Checks mean and variance within five standard errors.
void expectMoments(const at::Tensor &drawn, double mean, double variance,
                   double kurtosis = 3) {
  at::Tensor x = drawn.to(at::kDouble);
  double n = static_cast<double>(x.numel());
  EXPECT_NEAR(x.mean().item<double>(), mean, 5 * std::sqrt(variance / n));
  EXPECT_NEAR((x - mean).square().mean().item<double>(), variance,
              5 * variance * std::sqrt((kurtosis - 1) / n));
}

//===----------------------------------------------------------------------===//
// Which numbers
//===----------------------------------------------------------------------===//

TEST(Sampling, TakesTheDocumentedWords) {
  RandomSequence sequence(5, 2, 1, 9);
  at::Tensor drawn =
      draw({Kind::uniform, {0, 1}}, {200}, at::kFloat, 9, 5, 2, 1);
  for (int64_t i : {0, 1, 15, 16, 63, 64, 130, 199}) {
    uint64_t block = i / 64 * 16 + i % 16;
    uint32_t word = sequence.block(block)[i % 64 / 16];
    EXPECT_EQ(drawn[i].item<float>(), philox::toUniform(word)) << i;
  }
}

TEST(Sampling, DoesNotDependOnThreads) {
  int threads = at::get_num_threads();
  for (Kind kind : {Kind::normal, Kind::uniform}) {
    at::set_num_threads(1);
    at::Tensor one = draw({kind, {0, 1}}, {100003}, at::kFloat);
    at::set_num_threads(3);
    EXPECT_TRUE(one.equal(draw({kind, {0, 1}}, {100003}, at::kFloat)));
  }
  at::set_num_threads(threads);
}

TEST(Sampling, AShorterDrawIsTheBeginningOfALongerOne) {
  EXPECT_TRUE(uniform(37).equal(uniform(1000).narrow(0, 0, 37)));
  at::Tensor rate = at::full({100}, 20.0);
  at::Tensor all = draw({Kind::poisson, {}, {}, {rate}}, {100}, at::kFloat);
  EXPECT_TRUE(all.narrow(0, 0, 9).equal(
      draw({Kind::poisson, {}, {}, {rate.narrow(0, 0, 9)}}, {9}, at::kFloat)));
}

TEST(Sampling, SitesStepsRanksAndSeedsAreIndependent) {
  std::vector<at::Tensor> draws = {uniform(kCount),
                                   uniform(kCount, 1),
                                   uniform(kCount, 0, 4),
                                   uniform(kCount, 0, 3, 1),
                                   uniform(kCount, 0, 3, 0, 1),
                                   uniform(kCount, 0, 3, int64_t(1) << 32),
                                   uniform(kCount, 0, 3 | int64_t(1) << 40)};
  for (size_t i = 0; i < draws.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      double correlation =
          ((draws[i] - 0.5) * (draws[j] - 0.5)).mean().item<double>() * 12;
      EXPECT_LE(std::fabs(correlation), 5 / std::sqrt(kCount)) << i << " " << j;
    }
}

//===----------------------------------------------------------------------===//
// Distributions
//===----------------------------------------------------------------------===//

TEST(Sampling, UniformIsFlat) {
  for (at::ScalarType dtype :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    at::Tensor x =
        draw({Kind::uniform, {-2, 6}}, {kCount}, dtype).to(at::kDouble);
    EXPECT_GE(x.min().item<double>(), -2);
    EXPECT_LT(x.max().item<double>(), 6);
    // Chi-square of 64 bins has 63 degrees of freedom.
    at::Tensor bins = at::histc(x, 64, -2, 6);
    double expected = kCount / 64.0;
    double chi = ((bins - expected).square() / expected).sum().item<double>();
    EXPECT_NEAR(chi, 63, 5 * std::sqrt(2 * 63.0)) << dtype;
  }
}

TEST(Sampling, BernoulliKeepsItsProbability) {
  for (double p : {0.1, 0.5, 0.9, 0.995, 1e-3}) {
    at::Tensor mask = draw({Kind::bernoulli, {p}}, {kCount}, at::kBool);
    expectMoments(mask, p, p * (1 - p), (1 - 3 * p * (1 - p)) / (p * (1 - p)));
    for (at::ScalarType dtype :
         {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong})
      EXPECT_TRUE(draw({Kind::bernoulli, {p}}, {kCount}, dtype)
                      .to(at::kBool)
                      .equal(mask));
  }
  EXPECT_EQ(draw({Kind::bernoulli, {0}}, {99}, at::kBool).sum().item<int>(), 0);
  EXPECT_EQ(draw({Kind::bernoulli, {1}}, {99}, at::kBool).sum().item<int>(),
            99);
}

TEST(Sampling, ContinuousDistributionsHaveTheirMoments) {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    expectMoments(draw({Kind::normal, {1, 2}}, {kCount}, dtype), 1, 4);
    expectMoments(draw({Kind::exponential, {2}}, {kCount}, dtype), 0.5, 0.25,
                  9);
    expectMoments(draw({Kind::log_normal, {1, 2}}, {kCount}, dtype).log(), 1,
                  4);
    // Cauchy numbers have no moments; their arcs are uniform.
    expectMoments(
        ((draw({Kind::cauchy, {1, 2}}, {kCount}, dtype) - 1) / 2).atan() / M_PI,
        0, 1.0 / 12, 1.8);
  }
  EXPECT_GT(
      draw({Kind::exponential, {1}}, {kCount}, at::kFloat).min().item<float>(),
      0);
}

TEST(Sampling, NormalHasTheTailsOfANormal) {
  at::Tensor x = draw({Kind::normal, {0, 1}}, {kCount}, at::kFloat).abs();
  for (double limit : {1.0, 2.0, 3.0}) {
    double p = std::erfc(limit / std::sqrt(2));
    EXPECT_NEAR((x > limit).to(at::kDouble).mean().item<double>(), p,
                5 * std::sqrt(p * (1 - p) / kCount));
  }
}

TEST(Sampling, GeometricCountsTrials) {
  double p = 0.3;
  for (at::ScalarType dtype : {at::kFloat, at::kLong}) {
    at::Tensor x = draw({Kind::geometric, {p}}, {kCount}, dtype);
    EXPECT_EQ(x.min().item<int>(), 1);
    expectMoments(x, 1 / p, (1 - p) / (p * p), 9 + p * p / (1 - p));
  }
}

TEST(Sampling, IntegersTakeBothEndsOfTheRange) {
  at::Tensor x = draw({Kind::integer, {}, {-3, 6}}, {kCount}, at::kLong);
  at::Tensor counts = at::bincount(x + 3).to(at::kDouble);
  ASSERT_EQ(counts.numel(), 10);
  double expected = kCount / 10.0;
  double chi = ((counts - expected).square() / expected).sum().item<double>();
  EXPECT_NEAR(chi, 9, 5 * std::sqrt(18.0));
  // The whole of int64 has values of both signs.
  at::Tensor all = draw({Kind::integer,
                         {},
                         {std::numeric_limits<int64_t>::min(),
                          std::numeric_limits<int64_t>::max()}},
                        {kCount}, at::kLong);
  expectMoments(all.gt(0), 0.5, 0.25, 1);
  EXPECT_GT(all.max().item<int64_t>(), std::numeric_limits<int64_t>::max() / 2);
}

TEST(Sampling, PoissonHasItsRateAsMeanAndVariance) {
  for (double rate : {0.5, 4.0, 9.99, 10.0, 30.0, 1000.0}) {
    at::Tensor given = at::full({kCount}, rate, at::kDouble);
    expectMoments(draw({Kind::poisson, {}, {}, {given}}, {kCount}, at::kDouble),
                  rate, rate, 3 + 1 / rate);
  }
  at::Tensor zero = at::zeros({9});
  EXPECT_EQ(draw({Kind::poisson, {}, {}, {zero}}, {9}, at::kFloat)
                .sum()
                .item<float>(),
            0);
}

TEST(Sampling, BinomialCountsSuccesses) {
  for (auto [count, p] : {std::pair(7.0, 0.2),
                          {40.0, 0.5},
                          {500.0, 0.03},
                          {500.0, 0.9},
                          {12.0, 0.95}}) {
    at::Tensor n = at::full({kCount}, count, at::kDouble);
    at::Tensor probability = at::full({kCount}, p, at::kDouble);
    double variance = count * p * (1 - p);
    at::Tensor x =
        draw({Kind::binomial, {}, {}, {n, probability}}, {kCount}, at::kDouble);
    expectMoments(x, count * p, variance, 3 - 6 / count + 1 / variance);
    EXPECT_LE(x.max().item<double>(), count);
    EXPECT_GE(x.min().item<double>(), 0);
  }
}

TEST(Sampling, GammaHasItsShapeAsMeanAndVariance) {
  for (double shape : {0.1, 0.9, 1.0, 3.5, 80.0}) {
    at::Tensor given = at::full({kCount}, shape, at::kDouble);
    at::Tensor x = draw({Kind::gamma, {}, {}, {given}}, {kCount}, at::kDouble);
    expectMoments(x, shape, shape, 3 + 6 / shape);
    EXPECT_GT(x.min().item<double>(), 0);
  }
}

TEST(Sampling, RefusesParametersThatNoDistributionHas) {
  auto refuses = [](Kind kind, std::vector<at::Tensor> given) {
    EXPECT_THROW(draw({kind, {}, {}, given}, {1}, at::kFloat), c10::Error);
  };
  for (float bad : {-1.0f, std::numeric_limits<float>::quiet_NaN(),
                    std::numeric_limits<float>::infinity()}) {
    refuses(Kind::poisson, {at::full({1}, bad)});
    refuses(Kind::gamma, {at::full({1}, bad)});
    refuses(Kind::binomial, {at::full({1}, bad), at::full({1}, 0.5)});
  }
  refuses(Kind::binomial, {at::full({1}, 4), at::full({1}, 1.5)});
}

} // namespace
