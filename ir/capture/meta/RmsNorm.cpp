//===- RmsNorm.cpp - The fused RMS norm of CUDA ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `rms_norm` calls `_fused_rms_norm`, which autograd differentiates where the
// device has a kernel of it, as CUDA has, and decomposes elsewhere. A kernel
// for Meta would make that the former for every target, and the CPU has no
// kernel of the backward operator; above autograd it is therefore replaced by
// what the target device does.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/Shapes.h"
#include "ir/capture/meta/TargetScope.h"

#include <ATen/AccumulateType.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/_fused_rms_norm_compositeimplicitautograd_dispatch.h>

using namespace fsdp::meta;

/// Output and reciprocal roots, which CUDA keeps in the type that it sums in
/// (layer_norm_kernel.cu: _fused_rms_norm_cuda).
static Two forward(const Tensor &input, IntArrayRef normalizedShape,
                   const OptionalTensor &, std::optional<double>) {
  std::vector<int64_t> sizes = input.sizes().vec();
  std::fill(sizes.end() - normalizedShape.size(), sizes.end(), 1);
  return {contiguousLike(input),
          contiguous(sizes, input,
                     at::toAccumulateType(input.scalar_type(),
                                          /*is_cuda=*/true))};
}

static Two backward(const Tensor &, const Tensor &input, IntArrayRef,
                    const Tensor &, const OptionalTensor &weight,
                    std::array<bool, 2> mask) {
  return {mask[0] ? contiguousLike(input) : Tensor(),
          mask[1] ? contiguousLike(*weight) : Tensor()};
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_fused_rms_norm", forward);
  m.impl("_fused_rms_norm_backward", backward);
}

/// Autograd's own kernel. Asked for between the kernels for Meta, without which
/// it would be the decomposition, and the one that hides it.
static const c10::SafeKernelFunction differentiate =
    c10::Dispatcher::singleton()
        .findSchemaOrThrow("aten::_fused_rms_norm", "")
        .getComputedKernelForDispatchKey(c10::DispatchKey::AutogradMeta);

/// What `rms_norm` calls the operator for (layer_norm.cpp: rms_norm_symint).
/// An exported program may have the operator itself, with operands whose types
/// mixed precision has changed.
static bool takes(const Tensor &input, const OptionalTensor &weight) {
  return !input.is_complex() &&
         (!given(weight) || weight->scalar_type() == input.scalar_type());
}

static Two fusedRmsNorm(c10::DispatchKeySet keys, const Tensor &input,
                        IntArrayRef normalizedShape,
                        const OptionalTensor &weight,
                        std::optional<double> eps) {
  if (!isForCuda() || !takes(input, weight))
    return at::compositeimplicitautograd::_fused_rms_norm(
        input, normalizedShape, weight, eps);
  torch::jit::Stack stack = {input, normalizedShape, weight, eps};
  differentiate.callBoxed(differentiate.opHandle(), keys, &stack);
  return {std::move(stack[0]).toTensor(), std::move(stack[1]).toTensor()};
}

TORCH_LIBRARY_IMPL(aten, AutogradMeta, m) {
  m.impl("_fused_rms_norm", TORCH_FN(fusedRmsNorm));
}
