//===- Distributions.h - What a draw may be asked for -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One row for each distribution of `fsdp.draw` and of the plan's Draw, in the
// order of both enumerations: what it takes and gives. The verifiers of
// dialect and plan read it, so that what one accepts the other does.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_DISTRIBUTIONS_H
#define FSDP_SUPPORT_DISTRIBUTIONS_H

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fsdp {

struct DistributionInfo {
  const char *name;
  size_t numbers; ///< parameters that are numbers
  size_t tensors; ///< parameters that have one value for each element
  bool hasRange;  ///< whether it takes the least and the greatest value
  bool isInteger; ///< whether the results may be integers, too
};

inline constexpr std::array<DistributionInfo, 11> kDistributions = {{
    {"bernoulli", 1, 0, false, true},
    {"uniform", 2, 0, false, false},
    {"normal", 2, 0, false, false},
    {"exponential", 1, 0, false, false},
    {"cauchy", 2, 0, false, false},
    {"log_normal", 2, 0, false, false},
    {"geometric", 1, 0, false, true},
    {"integer", 0, 0, true, true},
    {"poisson", 0, 1, false, false},
    {"binomial", 0, 2, false, false},
    {"gamma", 0, 1, false, false},
}};

/// What is wrong with a draw's numbers, "expects … , found …"; empty if nothing
/// is. `distribution` is an index into the table.
inline std::string describeDrawProblem(size_t distribution,
                                       std::span<const double> numbers,
                                       size_t tensors,
                                       std::span<const int64_t> range) {
  const DistributionInfo &info = kDistributions[distribution];
  auto count = [](size_t expected, const char *what, size_t found) {
    return "expects " + std::to_string(expected) + " " + what + ", found " +
           std::to_string(found);
  };
  if (numbers.size() != info.numbers)
    return count(info.numbers, "numbers", numbers.size());
  if (tensors != info.tensors)
    return count(info.tensors, "tensors of parameters", tensors);
  if (range.size() != (info.hasRange ? 2 : 0))
    return count(info.hasRange ? 2 : 0, "ends of a range", range.size());
  if (info.hasRange && range[0] > range[1])
    return "expects a range that is not empty, found " +
           std::to_string(range[0]) + " to " + std::to_string(range[1]);
  for (double number : numbers)
    if (!std::isfinite(number))
      return "expects finite numbers, found " + std::to_string(number);
  std::string name = info.name;
  if (name == "bernoulli" && !(numbers[0] >= 0 && numbers[0] <= 1))
    return "expects a probability from 0 to 1, found " +
           std::to_string(numbers[0]);
  if (name == "geometric" && !(numbers[0] > 0 && numbers[0] < 1))
    return "expects a probability between 0 and 1, found " +
           std::to_string(numbers[0]);
  if (name == "exponential" && !(numbers[0] > 0))
    return "expects a positive rate, found " + std::to_string(numbers[0]);
  if ((name == "normal" || name == "log_normal") && !(numbers[1] >= 0))
    return "expects a deviation of at least 0, found " +
           std::to_string(numbers[1]);
  return {};
}

} // namespace fsdp

#endif // FSDP_SUPPORT_DISTRIBUTIONS_H
