//===- Curve.cpp - Seconds over a size, from measurements -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/Curve.h"

#include <algorithm>

using namespace fsdp;

double Curve::at(double size) const {
  if (points.empty())
    return 0;
  if (points.size() == 1 || size <= points.front().first)
    return points.front().second;
  auto above = std::ranges::find_if(
      points, [&](const auto &point) { return point.first >= size; });
  if (above == points.end())
    --above;
  auto [x0, y0] = *(above - 1);
  auto [x1, y1] = *above;
  double slope = std::max(0.0, (y1 - y0) / (x1 - x0));
  return size <= x1 ? y0 + (y1 - y0) * (size - x0) / (x1 - x0)
                    : y1 + slope * (size - x1);
}

double Curve::within(double size) const {
  return points.empty() ? 0 : at(std::min(size, points.back().first));
}
