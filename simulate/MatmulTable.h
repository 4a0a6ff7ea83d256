//===- MatmulTable.h - Products that were measured --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_MATMULTABLE_H
#define FSDP_SIMULATE_MATMULTABLE_H

#include "plan/plan_generated.h"

#include <array>
#include <vector>

namespace fsdp {

/// Seconds of products of m x k by k x n, for each of some m, n and k.
/// Logarithms of them lie on straight lines between those that were measured;
/// beyond the largest, time grows as the size does.
class MatmulTable {
public:
  struct Row {
    double m, n, k, seconds;
  };

  /// `rows` has each combination of its sizes once, and positive numbers alone
  /// (isGrid).
  MatmulTable(plan::DType dtype, bool isTransposed,
              const std::vector<Row> &rows);
  static bool isGrid(const std::vector<Row> &rows);

  plan::DType getDType() const { return dtype; }
  /// Whether the first operand's columns lie one behind the other, as in the
  /// gradient of a weight.
  bool isTransposed() const { return transposed; }

  double at(double m, double n, double k) const;

private:
  plan::DType dtype;
  bool transposed;
  std::array<std::vector<double>, 3> sizes; ///< logarithms, ascending
  std::vector<double> seconds;              ///< logarithms, k fastest
};

} // namespace fsdp

#endif // FSDP_SIMULATE_MATMULTABLE_H
