//===- MeasuredFields.h - Measurements in a cluster's file ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What stands in the lists and tables of a cluster's file (docs/Simulate.md).
// All of it throws fsdp::Error with the place of what is wrong.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SIMULATE_MEASUREDFIELDS_H
#define FSDP_SIMULATE_MEASUREDFIELDS_H

#include "simulate/Cluster.h"
#include "support/yaml/Reader.h"

#include <limits>

namespace fsdp {

inline constexpr double kAny = std::numeric_limits<double>::max();

/// A number from `least` to `most`.
double readNumber(const YamlReader &reader, const YAML::Node &node,
                  std::string_view key, double least, double most);
int64_t readCount(const YamlReader &reader, const YAML::Node &node,
                  std::string_view key);
/// "[[1, 2, 3], …]", rows of `width` numbers.
std::vector<std::vector<double>> readRows(const YamlReader &reader,
                                          const YAML::Node &node,
                                          std::string_view key, size_t width);

/// `network.measured`
std::vector<MeasuredCollective>
readMeasuredCollectives(const YamlReader &reader, const YAML::Node &node);
/// `network.skew`
std::vector<std::pair<int64_t, Curve>> readSkew(const YamlReader &reader,
                                                const YAML::Node &node);
/// `matmul.measured`
std::vector<MatmulTable> readMeasuredProducts(const YamlReader &reader,
                                              const YAML::Node &node);
/// `operators`
std::map<std::string, Curve, std::less<>>
readMeasuredOperators(const YamlReader &reader, const YAML::Node &node);

} // namespace fsdp

#endif // FSDP_SIMULATE_MEASUREDFIELDS_H
