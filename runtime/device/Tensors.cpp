//===- Tensors.cpp - Tensors over planned memory --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/device/Tensors.h"

#include <ATen/ops/from_blob.h>

using namespace fsdp;

at::Tensor fsdp::tensorAt(void *begin, at::IntArrayRef shape,
                          at::IntArrayRef strides, c10::ScalarType dtype,
                          c10::Device device) {
  // Without a target LibTorch asks the driver whose memory it is.
  return at::for_blob(begin, shape)
      .strides(strides)
      .options(at::TensorOptions().dtype(dtype).device(device))
      .target_device(device)
      .make_tensor();
}

at::Tensor fsdp::bytesAt(void *begin, size_t bytes, c10::Device device) {
  return tensorAt(begin, {static_cast<int64_t>(bytes)}, {1},
                  c10::ScalarType::Byte, device);
}
