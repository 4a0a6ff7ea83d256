//===- Curve.h - Seconds over a size, from measurements ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_CURVE_H
#define FSDP_SIMULATE_CURVE_H

#include <utility>
#include <vector>

namespace fsdp {

/// Straight lines between measurements; below them the first one's seconds.
class Curve {
public:
  Curve() = default;
  /// Ascending sizes, at least one.
  explicit Curve(std::vector<std::pair<double, double>> points)
      : points(std::move(points)) {}

  bool empty() const { return points.empty(); }
  /// Above them the last line's slope goes on.
  double at(double size) const;
  /// Above them the last one's seconds.
  double within(double size) const;

private:
  std::vector<std::pair<double, double>> points;
};

} // namespace fsdp

#endif // FSDP_SIMULATE_CURVE_H
