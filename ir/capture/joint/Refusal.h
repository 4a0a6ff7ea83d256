//===- Refusal.h - Why LibTorch refuses tensors without data ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch has many ways to say that an operator has no kernel for meta tensors
// or wants to look into one. They are told apart by their messages: most are
// thrown as plain errors.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_JOINT_REFUSAL_H
#define FSDP_IR_CAPTURE_JOINT_REFUSAL_H

#include <string>

namespace fsdp::capture {

struct Refusal {
  enum class Reason {
    Arguments,   ///< it would refuse real tensors too
    NoShapeRule, ///< shapes of results are not known without data
    NeedsData,   ///< it reads a tensor's values
  };
  Reason reason = Reason::Arguments;
  /// The operator that the message names, as aten::name.overload; may be empty.
  std::string op;
  /// What our own kernels say about it, else empty.
  std::string advice;
};

/// Reads the first line of the message of a c10::Error.
Refusal explainRefusal(const std::string &message);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_REFUSAL_H
