//===- RejectionSampling.cpp - Draws that may take several tries ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Poisson and binomial numbers by W. Hörmann's transformed rejection ("The
// transformed rejection method for generating Poisson random variables", 1993;
// "The generation of binomial random variates", 1993), small ones by counting;
// gamma numbers after G. Marsaglia and W. W. Tsang, "A simple method for
// generating gamma variables", 2000.
//
//===----------------------------------------------------------------------===//

#include "runtime/random/RejectionSampling.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <numbers>

#include <math.h> // lgamma_r: lgamma writes a global

using namespace fsdp;

double ElementSequence::nextNormal() {
  double radius = std::sqrt(-2 * std::log(next()));
  return radius * std::cos(2 * std::numbers::pi * next());
}

static double logFactorial(double k) {
  int sign;
  return ::lgamma_r(k + 1, &sign);
}

double fsdp::samplePoisson(ElementSequence &random, double rate) {
  TORCH_CHECK(rate >= 0 && std::isfinite(rate),
              "a Poisson rate must be finite and at least 0, found ", rate);
  if (rate < 10) {
    // Arrivals within one unit of time.
    double limit = std::exp(-rate), product = random.next();
    double count = 0;
    for (; product > limit; ++count)
      product *= random.next();
    return count;
  }
  double root = std::sqrt(rate), logRate = std::log(rate);
  double b = 0.931 + 2.53 * root;
  double a = -0.059 + 0.02483 * b;
  double inverseAlpha = 1.1239 + 1.1328 / (b - 3.4);
  double accepted = 0.9277 - 3.6224 / (b - 2);
  while (true) {
    double u = random.next() - 0.5, v = random.next();
    double distance = 0.5 - std::fabs(u);
    double k = std::floor((2 * a / distance + b) * u + rate + 0.43);
    if (distance >= 0.07 && v <= accepted)
      return k;
    if (k < 0 || (distance < 0.013 && v > distance))
      continue;
    if (std::log(v * inverseAlpha / (a / (distance * distance) + b)) <=
        k * logRate - rate - logFactorial(k))
      return k;
  }
}

/// `p` is at most 1/2, and the mean at least 10.
static double sampleLargeBinomial(ElementSequence &random, double count,
                                  double p) {
  double deviation = std::sqrt(count * p * (1 - p));
  double b = 1.15 + 2.53 * deviation;
  double a = -0.0873 + 0.0248 * b + 0.01 * p;
  double center = count * p + 0.5;
  double accepted = 0.92 - 4.2 / b;
  double alpha = (2.83 + 5.1 / b) * deviation;
  double mode = std::floor((count + 1) * p);
  double logOdds = std::log(p / (1 - p));
  double atMode = logFactorial(mode) + logFactorial(count - mode);
  while (true) {
    double u = random.next() - 0.5, v = random.next();
    double distance = 0.5 - std::fabs(u);
    double k = std::floor((2 * a / distance + b) * u + center);
    if (k < 0 || k > count)
      continue;
    if (distance >= 0.07 && v <= accepted)
      return k;
    if (std::log(v * alpha / (a / (distance * distance) + b)) <=
        atMode - logFactorial(k) - logFactorial(count - k) +
            (k - mode) * logOdds)
      return k;
  }
}

double fsdp::sampleBinomial(ElementSequence &random, double count, double p) {
  TORCH_CHECK(count >= 0 && std::isfinite(count) && p >= 0 && p <= 1,
              "a binomial takes a count of at least 0 and a probability from 0 "
              "to 1, found ",
              count, " and ", p);
  count = std::floor(count);
  if (p > 0.5)
    return count - sampleBinomial(random, count, 1 - p);
  if (count == 0 || p == 0)
    return 0;
  if (count * p >= 10)
    return sampleLargeBinomial(random, count, p);
  // Trials up to each success.
  double divisor = std::log1p(-p), trials = 0, successes = 0;
  while (true) {
    trials += std::max(std::ceil(std::log(random.next()) / divisor), 1.0);
    if (trials > count)
      return successes;
    ++successes;
  }
}

double fsdp::sampleGamma(ElementSequence &random, double shape) {
  TORCH_CHECK(shape > 0 && std::isfinite(shape),
              "a gamma's shape must be positive and finite, found ", shape);
  double scale = 1;
  if (shape < 1) {
    scale = std::pow(random.next(), 1 / shape);
    shape += 1;
  }
  double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    double x = random.nextNormal(), y = 1 + c * x;
    if (y <= 0)
      continue;
    double v = y * y * y;
    if (std::log(random.next()) < 0.5 * x * x + d * (1 - v + std::log(v)))
      return scale * d * v;
  }
}
