//===- Workspaces.cpp - What LibTorch's GPU libraries hold ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/Workspaces.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/util/Exception.h>
#include <c10/util/env.h>

#include <mutex>
#include <tuple>

using namespace fsdp;

void fsdp::placeWorkspaces() {
  (void)at::cuda::getCurrentCUDABlasHandle();
  (void)at::cuda::getCUDABlasLtWorkspace();
}

void fsdp::releaseWorkspaces(StreamHandle stream) noexcept {
  for (auto *kept : {&at::cuda::cublas_handle_stream_to_workspace(),
                     &at::cuda::cublaslt_handle_stream_to_workspace()}) {
    std::unique_lock lock(kept->mutex);
    std::erase_if(kept->map, [&](const auto &each) {
      return std::get<1>(each.first) == stream; // (handle, stream)
    });
  }
}

uint64_t fsdp::workspaceBytesOfStream() {
  // They may be one and the same; then this is the most.
  return at::cuda::getChosenWorkspaceSize() +
         at::cuda::getCUDABlasLtWorkspaceSize();
}

namespace {
/// Says nothing.
class Silence : public c10::WarningHandler {
  void process(const c10::Warning &) override {}
};
} // namespace

/// By itself LibTorch leaves some batches to MAGMA, and matrices that are not
/// square (BatchLinearAlgebra.cpp, lu_factor, _cholesky_solve_helper_cuda): the
/// host waits there, and writes pointers for one call, which a CUDA graph would
/// read again and again.
static void avoidMagma(at::Context &context) {
  Silence silence; // LibTorch calls the choice experimental, in every run
  c10::WarningUtils::WarningHandlerGuard guard(&silence);
  context.setLinalgPreferredBackend(at::LinalgBackend::Cusolver);
}

void fsdp::useArithmetic(const plan::PlanT &plan) {
  const plan::ArithmeticT allowed =
      plan.arithmetic ? *plan.arithmetic : plan::ArithmeticT();
  at::Context &context = at::globalContext();
  avoidMagma(context);
  // An algorithm that was measured to be the fastest is another one tomorrow.
  context.setBenchmarkCuDNN(false);
  context.setAllowTF32CuBLAS(allowed.tf32);
  context.setAllowTF32CuDNN(allowed.tf32);
  context.setAllowFP16ReductionCuBLAS(allowed.reduced_precision_reduction);
  context.setAllowBF16ReductionCuBLAS(allowed.reduced_precision_reduction);
  context.setAllowFP16AccumulationCuBLAS(allowed.fp16_accumulation);
  context.setDeterministicCuDNN(allowed.deterministic);
  // What has no kernel of that kind is an error of LibTorch's that names it.
  context.setDeterministicAlgorithms(allowed.deterministic,
                                     /*warn_only=*/false);
  if (!allowed.deterministic)
    return;
  // All that is read was written: nothing needs to be filled for that.
  context.setDeterministicFillUninitializedMemory(false);
  // cuBLAS reads it when its first handle is made; LibTorch refuses products
  // without it.
  constexpr const char *kConfig = "CUBLAS_WORKSPACE_CONFIG";
  if (!c10::utils::has_env(kConfig))
    c10::utils::set_env(kConfig, ":4096:8");
}
