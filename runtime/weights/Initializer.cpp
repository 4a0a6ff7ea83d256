//===- Initializer.cpp - First values that are computed -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/weights/Initializer.h"

#include "support/Hash.h"
#include "support/Philox.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <type_traits>

using namespace fsdp;
using plan::InitKind;

namespace {

/// Numbers of a tensor's random sequence; block b holds elements
/// [b * kLanes, (b + 1) * kLanes).
template <typename T>
class Sequence {
public:
  static constexpr uint64_t kLanes = std::is_same_v<T, double> ? 2 : 4;
  using Lanes = std::array<T, kLanes>;

  explicit Sequence(const InitialTensor &tensor)
      : key(philox::deriveKey(tensor.seed, philox::Domain::Init,
                              /*stream=*/0)),
        name(hash64(tensor.name)) {}

  Lanes uniforms(uint64_t block) const {
    philox::Block bits = generate(block);
    if constexpr (kLanes == 2)
      return {philox::toUniform(bits[0], bits[1]),
              philox::toUniform(bits[2], bits[3])};
    else
      return {philox::toUniform(bits[0]), philox::toUniform(bits[1]),
              philox::toUniform(bits[2]), philox::toUniform(bits[3])};
  }

  Lanes normals(uint64_t block) const {
    if constexpr (kLanes == 2) {
      Lanes u = uniforms(block);
      // In (0, 1]: the logarithm must be finite.
      double radius = std::sqrt(-2 * std::log(1 - u[0]));
      double angle = 2 * std::numbers::pi * u[1];
      return {radius * std::cos(angle), radius * std::sin(angle)};
    } else {
      philox::Block bits = generate(block);
      std::array<float, 2> a = philox::toNormals(bits[0], bits[1]);
      std::array<float, 2> b = philox::toNormals(bits[2], bits[3]);
      return {a[0], a[1], b[0], b[1]};
    }
  }

private:
  philox::Block generate(uint64_t block) const {
    return philox::generate({uint32_t(block), uint32_t(block >> 32),
                             uint32_t(name), uint32_t(name >> 32)},
                            key);
  }

  philox::Key key;
  uint64_t name;
};

/// Calls `draw` for each block that has elements of the range, and keeps those.
template <typename T, typename Draw>
void fill(uint64_t first, std::span<T> to, Draw draw) {
  constexpr uint64_t lanes = Sequence<T>::kLanes;
  uint64_t end = first + to.size();
  for (uint64_t block = first / lanes; block * lanes < end; ++block) {
    auto values = draw(block);
    for (uint64_t i = 0; i < lanes; ++i)
      if (uint64_t at = block * lanes + i; at >= first && at < end)
        to[at - first] = values[i];
  }
}

double normalDistribution(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

/// Horner's scheme, highest power first.
template <size_t N>
double evaluate(const std::array<double, N> &coefficients, double x) {
  double value = 0;
  for (double coefficient : coefficients)
    value = value * x + coefficient;
  return value;
}

} // namespace

double fsdp::inverseNormal(double p) {
  if (p <= 0)
    return -std::numeric_limits<double>::infinity();
  if (p >= 1)
    return std::numeric_limits<double>::infinity();
  // Acklam's rational approximation, good to 1e-9, then one step of Halley's.
  static constexpr std::array<double, 6> a = {
      -3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
      1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  static constexpr std::array<double, 6> b = {
      -5.447609879822406e+01, 1.615858368580409e+02,  -1.556989798598866e+02,
      6.680131188771972e+01,  -1.328068155288572e+01, 1.0};
  static constexpr std::array<double, 6> c = {
      -7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
      -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  static constexpr std::array<double, 5> d = {
      7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
      3.754408661907416e+00, 1.0};
  constexpr double tail = 0.02425;
  double x;
  if (p < tail || p > 1 - tail) {
    double q = std::sqrt(-2 * std::log(std::min(p, 1 - p)));
    x = evaluate(c, q) / evaluate(d, q);
    if (p > 0.5)
      x = -x;
  } else {
    double q = p - 0.5, r = q * q;
    x = evaluate(a, r) * q / evaluate(b, r);
  }
  double error = normalDistribution(x) - p;
  double step = error * std::sqrt(2 * std::numbers::pi) * std::exp(x * x / 2);
  return x - step / (1 + x * step / 2);
}

template <typename T>
void fsdp::computeElements(const plan::InitializerT &init,
                           const InitialTensor &tensor, uint64_t first,
                           std::span<T> to) {
  const std::vector<double> &arguments = init.arguments;
  Sequence<T> sequence(tensor);
  switch (init.kind) {
  case InitKind::normal: {
    T mean = T(arguments[0]), std = T(arguments[1]);
    return fill(first, to, [&](uint64_t block) {
      auto values = sequence.normals(block);
      for (T &value : values)
        value = value * std + mean;
      return values;
    });
  }
  case InitKind::uniform: {
    T low = T(arguments[0]), range = T(arguments[1]) - low;
    return fill(first, to, [&](uint64_t block) {
      auto values = sequence.uniforms(block);
      for (T &value : values)
        value = value * range + low;
      return values;
    });
  }
  case InitKind::trunc_normal: {
    // The distribution function's inverse: one number for each element, with
    // none rejected.
    double mean = arguments[0], std = arguments[1];
    double low = arguments[2], high = arguments[3];
    double below = normalDistribution((low - mean) / std);
    double range = normalDistribution((high - mean) / std) - below;
    return fill(first, to, [&](uint64_t block) {
      auto values = sequence.uniforms(block);
      for (T &value : values)
        value = T(std::clamp(
            inverseNormal(below + range * double(value)) * std + mean, low,
            high));
      return values;
    });
  }
  case InitKind::eye: {
    auto columns = static_cast<uint64_t>(tensor.shape[1]);
    for (size_t i = 0; i < to.size(); ++i)
      to[i] = (first + i) / columns == (first + i) % columns;
    return;
  }
  case InitKind::rope: {
    T theta = T(arguments[0]), size = T(2 * tensor.shape[0]);
    for (size_t i = 0; i < to.size(); ++i)
      to[i] = 1 / std::pow(theta, T(2 * (first + i)) / size);
    return;
  }
  case InitKind::pissa:
  case InitKind::loftq:
  case InitKind::norms:
  case InitKind::owner:
    break;
  }
  throw std::logic_error("what another state says is not computed by element");
}

template void fsdp::computeElements(const plan::InitializerT &,
                                    const InitialTensor &, uint64_t,
                                    std::span<float>);
template void fsdp::computeElements(const plan::InitializerT &,
                                    const InitialTensor &, uint64_t,
                                    std::span<double>);
