//===- KernelPlan.h - A plan that runs a kernel -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_PLAN_KERNELPLAN_H
#define FSDP_TEST_UNIT_PLAN_KERNELPLAN_H

#include "plan/Kernels.h"

namespace fsdp::test {

std::unique_ptr<plan::KernelOpT> makeOp(KernelOpKind kind,
                                        std::vector<uint32_t> args,
                                        std::vector<int64_t> integers = {});
std::unique_ptr<plan::KernelOperandT>
makeOperand(std::vector<int64_t> strides, uint64_t columns, int32_t written);

/// y = x + sum(x), row by row, and the sum of y over rows.
plan::KernelProgramT makeProgram();

/// Runs it in front of the first program, over a state of 24 elements.
plan::KernelT &addKernel(plan::PlanT &plan);

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_PLAN_KERNELPLAN_H
