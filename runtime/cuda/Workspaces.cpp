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

void fsdp::useArithmetic(const plan::PlanT &) {
  at::Context &context = at::globalContext();
  // An algorithm that was measured to be the fastest is another one tomorrow.
  context.setBenchmarkCuDNN(false);
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
  context.setAllowFP16ReductionCuBLAS(false);
  context.setAllowBF16ReductionCuBLAS(false);
  context.setAllowFP16AccumulationCuBLAS(false);
}
