//===- Ptx.h - How a GPU's code is launched ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code of a GPU is PTX with entries that compute a whole program. All of them
// take addresses of global memory alone:
//
//   kernel, kernel_aligned   operands in their order; the second one where all
//                            of them are multiples of 16
//   sum_N                    partial rows, and the row of operand N
//
// For an operand N that takes a sum over rows the first two are given memory of
// `partialRows` rows of f32, one behind the other, which they fill, and which
// sum_N adds up in order, behind them, and rounds to the operand's type.
// Numbers of threads and blocks are the code's and not the GPU's, so sums are
// the same on all.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_KERNELS_PTX_H
#define FSDP_KERNELS_PTX_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

struct PtxLaunch {
  std::string entry;
  uint32_t threads = 0; ///< of a block, along x
  uint32_t blocks = 0;  ///< along x; 0: there is nothing to launch
  uint32_t partialRows = 0;
  bool operator==(const PtxLaunch &) const = default;
};

/// A line of a comment for each, to stand before the PTX.
std::string toText(const std::vector<PtxLaunch> &launches);
/// What stands there; none if it does not.
std::optional<std::vector<PtxLaunch>> readLaunches(std::string_view ptx);

} // namespace fsdp

#endif // FSDP_KERNELS_PTX_H
