//===- Records.cpp - Where a .pt keeps a tensor ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/torchscript/Records.h"

#include <algorithm>
#include <cstring>

using namespace fsdp;
using namespace fsdp::capture;

bool TorchScriptRecords::holdsTensors(std::string_view name) {
  return name.starts_with("data/") || name.starts_with("constants/");
}

TorchScriptRecords::TorchScriptRecords(const ZipDirectory &archive)
    : file(archive.path(), "the model file") {
  for (const ZipEntry &entry : archive.entries())
    if (holdsTensors(entry.name) && entry.stored)
      bySize[entry.bytes].push_back(&entry);
}

bool TorchScriptRecords::holds(const ZipEntry &entry, const char *data) {
  // Weights of equal size are common: the first bytes tell most apart.
  constexpr uint64_t first = 64, block = 1 << 20;
  for (uint64_t done = 0; done < entry.bytes;) {
    uint64_t count = std::min(entry.bytes - done, done ? block : first);
    buffer.resize(count);
    file.read(entry.offset + done, count, buffer.data());
    if (std::memcmp(buffer.data(), data + done, count) != 0)
      return false;
    done += count;
  }
  return true;
}

/// Elements from the first to behind the last one.
static uint64_t getSpan(const at::Tensor &tensor) {
  uint64_t last = 0;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim)
    last += (tensor.size(dim) - 1) * tensor.stride(dim);
  return last + 1;
}

std::optional<Record> TorchScriptRecords::find(const at::Tensor &tensor) {
  if (!tensor.numel())
    return std::nullopt;
  const at::Storage &storage = tensor.storage();
  auto candidates = bySize.find(storage.nbytes());
  if (candidates == bySize.end())
    return std::nullopt;
  for (const ZipEntry *entry : candidates->second) {
    if (!holds(*entry, static_cast<const char *>(storage.data())))
      continue;
    Record record;
    record.name = entry->name;
    record.offset =
        entry->offset + tensor.storage_offset() * tensor.element_size();
    record.bytes = getSpan(tensor) * tensor.element_size();
    record.crc = entry->crc;
    if (!tensor.is_contiguous())
      record.strides = tensor.strides().vec();
    return record;
  }
  return std::nullopt;
}
