//===- Recorded.h - A mask as capture sees it -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_IR_CAPTURE_ATTENTION_RECORDED_H
#define FSDP_TEST_UNIT_IR_CAPTURE_ATTENTION_RECORDED_H

#include "ir/capture/joint/JointGraph.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace fsdp::attention {

/// A graph in which `value` is what `make` made of tensors without data.
struct Recorded {
  std::unique_ptr<capture::JointGraph> graph;
  capture::ValueId value;
};

/// `make` gets an input of the program, [2, 1, 1, keys] of true and false.
Recorded record(const std::function<at::Tensor(const at::Tensor &input)> &make,
                int64_t keys = 8);

/// 0 to n - 1, as an operator of the program.
at::Tensor positions(int64_t n);

} // namespace fsdp::attention

#endif // FSDP_TEST_UNIT_IR_CAPTURE_ATTENTION_RECORDED_H
