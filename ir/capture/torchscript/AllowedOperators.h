//===- AllowedOperators.h - Operators that only compute ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_TORCHSCRIPT_ALLOWEDOPERATORS_H
#define FSDP_IR_CAPTURE_TORCHSCRIPT_ALLOWEDOPERATORS_H

#include <torch/csrc/jit/ir/ir.h>

#include <string>

namespace fsdp::capture {

/// Throws Error for an operator of the code of `function`: OperatorNotAllowed
/// unless it is known to do nothing but compute, CustomOperator if it is one of
/// a library.
void checkOperator(const torch::jit::Node &node, const std::string &function);

/// " at model.py:12", or nothing where that is not known.
std::string describeSource(const torch::jit::Node &node);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_TORCHSCRIPT_ALLOWEDOPERATORS_H
