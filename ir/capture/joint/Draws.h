//===- Draws.h - Random operators in terms of draws -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch's random operators advance a generator that the process shares. In a
// captured program each is replaced by its definition: draws, which are
// functions of a state and a site, and operators that draw nothing.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_JOINT_DRAWS_H
#define FSDP_IR_CAPTURE_JOINT_DRAWS_H

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <string>
#include <vector>

namespace fsdp::capture {

/// The operator that draws are recorded as, "fsdp::draw" (meta/Draw.cpp); its
/// arguments are those of `fsdp.draw`.
inline constexpr const char *kDrawOperator = "fsdp::draw";

/// One draw: what `fsdp.draw` says, but for state and site.
struct Draw {
  std::string distribution;
  std::vector<double> numbers;
  std::vector<int64_t> range;
  std::vector<at::Tensor> given; ///< contiguous, of the result's type
  std::vector<int64_t> sizes, strides;
  c10::ScalarType dtype;
};

/// Makes a draw at the next site.
using DrawFunction = std::function<at::Tensor(const Draw &)>;

/// Whether a call of `op` draws random numbers, so that it must be replaced:
/// not with a dropout probability of 0 or outside of training. `stack` ends
/// with the call's arguments.
bool needsDrawDefinition(const c10::OperatorHandle &op,
                         const torch::jit::Stack &stack);

/// Whether `op` draws and has a definition, or decomposes into operators that
/// have.
bool hasDrawDefinition(const c10::OperatorHandle &op);

/// Computes a call of `op`, which has a definition, out of `draw` and other
/// operators: replaces the arguments at the stack's end by the results. Throws
/// c10::Error if the arguments are invalid.
void callDrawDefinition(const c10::OperatorHandle &op, torch::jit::Stack &stack,
                        const DrawFunction &draw);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_DRAWS_H
