//===- Tensors.h - Tensors over planned memory ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DEVICE_TENSORS_H
#define FSDP_RUNTIME_DEVICE_TENSORS_H

#include <ATen/core/Tensor.h>

namespace fsdp {

/// A tensor over memory of `device` that it does not own; strides in elements.
at::Tensor tensorAt(void *begin, at::IntArrayRef shape, at::IntArrayRef strides,
                    c10::ScalarType dtype, c10::Device device);

/// `bytes` bytes as such a tensor.
at::Tensor bytesAt(void *begin, size_t bytes, c10::Device device);

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_TENSORS_H
