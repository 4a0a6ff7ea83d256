//===- RecordData.cpp - Tensors of a model's file -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/RecordData.h"

#include <ATen/ops/empty.h>

#include <fstream>

using namespace fsdp::capture;

at::Tensor fsdp::capture::readRecord(const std::string &path,
                                     const Record &record,
                                     const TensorType &type) {
  at::Tensor storage =
      at::empty({int64_t(record.bytes / c10::elementSize(type.dtype))},
                at::TensorOptions(type.dtype));
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(record.offset));
  if (!file.read(static_cast<char *>(storage.data_ptr()),
                 static_cast<std::streamsize>(record.bytes)))
    return {};
  return storage.as_strided(
      type.sizes, record.strides.empty() ? type.strides : record.strides);
}
