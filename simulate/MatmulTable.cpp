//===- MatmulTable.cpp - Products that were measured ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/MatmulTable.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace fsdp;

static std::array<double, 3> sizesOf(const MatmulTable::Row &row) {
  return {row.m, row.n, row.k};
}

bool MatmulTable::isGrid(const std::vector<Row> &rows) {
  std::array<std::set<double>, 3> found;
  std::set<std::array<double, 3>> all;
  for (const Row &row : rows) {
    if (!(row.m > 0 && row.n > 0 && row.k > 0 && row.seconds > 0) ||
        !all.insert(sizesOf(row)).second)
      return false;
    for (size_t i = 0; i < 3; ++i)
      found[i].insert(sizesOf(row)[i]);
  }
  return !rows.empty() &&
         found[0].size() * found[1].size() * found[2].size() == rows.size();
}

MatmulTable::MatmulTable(plan::DType dtype, bool isTransposed,
                         const std::vector<Row> &rows)
    : dtype(dtype), transposed(isTransposed) {
  std::vector<Row> sorted = rows;
  std::ranges::sort(sorted, {}, sizesOf);
  for (size_t i = 0; i < 3; ++i) {
    std::set<double> found;
    for (const Row &row : rows)
      found.insert(std::log(sizesOf(row)[i]));
    sizes[i].assign(found.begin(), found.end());
  }
  for (const Row &row : sorted)
    seconds.push_back(std::log(row.seconds));
}

double MatmulTable::at(double m, double n, double k) const {
  double beyond = 0; // of the largest sizes
  std::array<size_t, 3> below{};
  std::array<double, 3> part{};
  std::array<double, 3> wanted = {m, n, k};
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<double> &known = sizes[i];
    double size = std::log(std::max(wanted[i], 1.0));
    beyond += std::max(0.0, size - known.back());
    size = std::clamp(size, known.front(), known.back());
    while (below[i] + 2 < known.size() && known[below[i] + 1] < size)
      ++below[i];
    if (known.size() > 1)
      part[i] =
          (size - known[below[i]]) / (known[below[i] + 1] - known[below[i]]);
  }
  double sum = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    double weight = 1;
    size_t index = 0;
    for (size_t i = 0; i < 3; ++i) {
      bool isAbove = corner >> i & 1;
      weight *= isAbove ? part[i] : 1 - part[i];
      // A size that stands alone has nothing above it, and no weight there.
      index = index * sizes[i].size() +
              std::min(below[i] + (isAbove ? 1 : 0), sizes[i].size() - 1);
    }
    sum += weight * seconds[index];
  }
  return std::exp(sum + beyond);
}
