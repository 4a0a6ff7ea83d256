//===- Cases.h - What is measured -------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All ranks of the crew call these together, and get as many numbers each.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CALIBRATE_CASES_H
#define FSDP_RUNTIME_CALIBRATE_CASES_H

#include "runtime/calibrate/Crew.h"

#include <algorithm>
#include <cstdint>

namespace fsdp {

/// Products of f32 over a grid of sizes, "products" and "products transposed"
/// at (rows, columns, depth), and "rate f64" and the like: seconds of one
/// product of kRateSize.
void measureProducts(Crew &crew, std::vector<Measured> &results);
inline constexpr int64_t kRateSize = 512;

/// A machine is disturbed for seconds at a time, so what costs most of a step
/// is measured from first to last, and then again; the least counts.
inline constexpr int kPasses = 2;

/// A step's weights, gradients and states come from memory, one after another:
/// as many others are worked on in turn as fill caches, at most these.
inline int64_t countTurns(int64_t bytes) {
  constexpr int64_t cold = int64_t(64) << 20, most = 16;
  return std::clamp(cold / std::max<int64_t>(bytes, 1), int64_t(1), most);
}

/// Tables named as simulate/Work.h names operators, at their bytes, or at
/// operations for attention and convolutions; "issue" at nothing: what a call
/// by name costs beside the kernel.
void measureOperators(Crew &crew, std::vector<Measured> &results);

/// "all_gather start", "… seconds", "… finish" at bytes of the whole tensors,
/// and, where it goes on while ranks compute, "… beside" and "… lost";
/// "… tensor" and "… processor" (a share of a core) at nothing; "skew seconds"
/// at the seconds between two waits.
void measureCollectives(Crew &crew, std::vector<Measured> &results);

} // namespace fsdp

#endif // FSDP_RUNTIME_CALIBRATE_CASES_H
