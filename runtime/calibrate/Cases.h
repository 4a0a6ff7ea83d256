//===- Cases.h - What is measured -------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All ranks of the crew call these together, and get as many numbers each.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CALIBRATE_CASES_H
#define FSDP_RUNTIME_CALIBRATE_CASES_H

#include "runtime/calibrate/Crew.h"

namespace fsdp {

/// Products of f32 over a grid of sizes, "products" and "products transposed"
/// at (rows, columns, depth), and "rate f64" and the like: seconds of one
/// product of kRateSize.
void measureProducts(Crew &crew, std::vector<Measured> &results);
inline constexpr int64_t kRateSize = 512;

/// Tables named as simulate/Work.h names operators, at their bytes, or at
/// operations for attention and convolutions; "issue" at nothing: what a call
/// by name costs beside the kernel.
void measureOperators(Crew &crew, std::vector<Measured> &results);

/// "all_gather start", "… seconds", "… finish" at bytes of the whole tensors,
/// "… tensor" and "… processor" (a share of a core) at nothing.
void measureCollectives(Crew &crew, std::vector<Measured> &results);

} // namespace fsdp

#endif // FSDP_RUNTIME_CALIBRATE_CASES_H
