//===- Workspaces.cpp - What LibTorch's GPU libraries hold ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/Workspaces.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>

using namespace fsdp;

void fsdp::placeWorkspaces() {
  (void)at::cuda::getCurrentCUDABlasHandle();
  (void)at::cuda::getCUDABlasLtWorkspace();
}

uint64_t fsdp::workspaceBytesOfStream() {
  // They may be one and the same; then this is the most.
  return at::cuda::getChosenWorkspaceSize() +
         at::cuda::getCUDABlasLtWorkspaceSize();
}

void fsdp::useArithmetic(const plan::PlanT &plan) {
  const plan::ArithmeticT allowed =
      plan.arithmetic ? *plan.arithmetic : plan::ArithmeticT();
  at::Context &context = at::globalContext();
  // An algorithm that was measured to be the fastest is another one tomorrow.
  context.setBenchmarkCuDNN(false);
  context.setAllowTF32CuBLAS(allowed.tf32);
  context.setAllowTF32CuDNN(allowed.tf32);
  context.setAllowFP16ReductionCuBLAS(allowed.reduced_precision_reduction);
  context.setAllowBF16ReductionCuBLAS(allowed.reduced_precision_reduction);
  context.setAllowFP16AccumulationCuBLAS(allowed.fp16_accumulation);
}
