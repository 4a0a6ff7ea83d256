//===- Limits.h - Greatest and least numbers of a dtype ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model asks for the least number of the dtype that it computes in
// (torch.finfo(scores.dtype).min, in masks), and an export holds the answer of
// the day: float32's. Under mixed precision the dtype is another, in which that
// number is infinite, and PyTorch would have answered with its own.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_JOINT_LIMITS_H
#define FSDP_IR_CAPTURE_JOINT_LIMITS_H

#include "ir/capture/joint/JointGraph.h"

namespace fsdp::capture {

/// Replaces each number that is the greatest or least of a dtype, and that what
/// computes with it makes narrower, by that of the narrower dtype; likewise the
/// smallest positive normal number where it would be 0. Adds a row to
/// `graph.limits` for each. Only dtypes that the policies of `graph.precision`
/// bring in count: what the model narrows by itself stays as it is. Throws
/// where another finite number is written into a dtype that has none so great.
void narrowLimits(JointGraph &graph);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_LIMITS_H
