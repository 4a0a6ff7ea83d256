//===- NumberReader.cpp - Numbers of a device for the host ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/device/NumberReader.h"

#include "runtime/device/Pages.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <utility>

using namespace fsdp;

/// Of one number, of any type.
static constexpr uint64_t kRoom = 16;

NumberReader::NumberReader(std::shared_ptr<Streams> streams, Memory &pinned,
                           StreamMemory &device)
    : streams(std::move(streams)), pinned(pinned), device(device) {}

NumberReader::~NumberReader() {
  if (buffer)
    pinned.unmap(buffer, bufferBytes);
}

void NumberReader::reserve(uint64_t bytes) {
  if (bytes <= bufferBytes)
    return;
  if (buffer)
    pinned.unmap(std::exchange(buffer, nullptr), std::exchange(bufferBytes, 0));
  bytes = (bytes + kPage - 1) / kPage * kPage;
  buffer = pinned.map(bytes);
  bufferBytes = bytes;
}

std::vector<double> NumberReader::read(std::span<const at::Tensor> tensors) {
  // Nothing is on its way into the buffer: the host waited for all that was.
  reserve(tensors.size() * kRoom);
  for (size_t i = 0; i < tensors.size(); ++i)
    streams->download(buffer + i * kRoom, tensors[i].const_data_ptr(),
                      tensors[i].nbytes(), streams->compute());
  device.synchronize();
  std::vector<double> values;
  for (size_t i = 0; i < tensors.size(); ++i) {
    alignas(kRoom) char number[kRoom];
    pinned.read(number, buffer + i * kRoom, tensors[i].nbytes());
    values.push_back(
        at::from_blob(number, {}, tensors[i].scalar_type()).item<double>());
  }
  return values;
}
