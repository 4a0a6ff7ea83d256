//===- Simplify.h - Removes what a joint graph does not need ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_JOINT_SIMPLIFY_H
#define FSDP_IR_CAPTURE_JOINT_SIMPLIFY_H

#include "ir/capture/joint/JointGraph.h"

#include <span>

namespace fsdp::capture {

/// Brings a recorded graph into its normal form, without changing what it
/// computes: identities (detach, alias, views of a tensor as it is, t(t(x)))
/// are gone, Python numbers are scalars of their operators where these take
/// them, and operators and constants that no result needs are dropped.
void simplify(JointGraph &graph);

/// Drops constants and volatile buffers that none of the graphs, which share
/// their states, reads or writes: nobody would notice their values, which may
/// not even exist.
void dropUnusedStates(std::span<JointGraph *const> graphs);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_SIMPLIFY_H
