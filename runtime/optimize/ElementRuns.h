//===- ElementRuns.h - Where a rank's elements are in the model -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_OPTIMIZE_ELEMENTRUNS_H
#define FSDP_RUNTIME_OPTIMIZE_ELEMENTRUNS_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <vector>

namespace fsdp {

/// Neighbouring elements of a rank's part of a state that are neighbours in the
/// model's tensor.
struct ElementRun {
  int64_t local; ///< the first one's number in what the rank holds of the state
  int64_t whole; ///< in the model's tensor, in row-major order
  int64_t count;
  uint32_t tensor; ///< a hash of the tensor's name
};

/// What `rank` holds of a state, by ascending local numbers, without padding.
/// Of a flat state it holds members'.
std::vector<ElementRun> listRuns(const plan::PlanT &plan, uint32_t state,
                                 int rank);

} // namespace fsdp

#endif // FSDP_RUNTIME_OPTIMIZE_ELEMENTRUNS_H
