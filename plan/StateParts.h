//===- StateParts.h - How the model's tensors are cut -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tensor of the model is cut twice: by the split of tensor parallelism into
// equal parts along a dim, of which `StateT::shape` is one, and then by FSDP,
// of which `StateT::bytes` are one rank's.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_STATEPARTS_H
#define FSDP_PLAN_STATEPARTS_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <vector>

namespace fsdp {

/// The state whose bytes it lies in: the flat one that it is part of, or
/// itself.
const plan::StateT &homeOf(const plan::PlanT &plan, const plan::StateT &state);

/// The group that the state's tensor is split over; null if `state.shape` is
/// the model's tensor.
const plan::GroupT *splitOf(const plan::PlanT &plan, const plan::StateT &state);

/// The group over which FSDP cuts the state, or the flat one that it lies in;
/// null if each rank holds all of `state.shape`.
const plan::GroupT *shardsOf(const plan::PlanT &plan,
                             const plan::StateT &state);

/// The shape of the model's tensor: of what files and checkpoints hold.
std::vector<int64_t> wholeShape(const plan::PlanT &plan,
                                const plan::StateT &state);

/// Whether groups are of different axes of a mesh: ranks that two of them have
/// in common are one rank, and all of their ranks together are a grid.
bool areApart(const plan::GroupT &a, const plan::GroupT &b);

} // namespace fsdp

#endif // FSDP_PLAN_STATEPARTS_H
