//===- ModelFile.cpp - First values out of the model file -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/ModelFile.h"

#include "plan/DType.h"
#include "runtime/device/DTypes.h"
#include "support/Crc.h"
#include "support/Error.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>

using namespace fsdp;

ModelFile::ModelFile(const plan::ModelT &model, const std::string &folder,
                     const std::string &override)
    : file(override.empty()
               ? (std::filesystem::path(folder) / model.path).string()
               : override,
           "the model file",
           "the artifact reads the first values of the parameters from it; "
           "name it with --model=PATH if it was moved") {
  auto refuse = [&](const std::string &what) {
    throw Error(ErrorId::ModelFileChanged,
                "'" + file.path() +
                    "' is not the model file that was compiled: " + what +
                    "; compile it again, or name the original with "
                    "--model=PATH");
  };
  if (file.bytes() != model.bytes)
    refuse("expected " + std::to_string(model.bytes) + " bytes, found " +
           std::to_string(file.bytes()));
  std::string directory;
  try {
    ZipDirectory archive = ZipDirectory::read(file.path());
    directory = archive.directoryHash();
    entries = archive.entries();
  } catch (const Error &error) {
    refuse(error.what());
  }
  if (directory != model.directory)
    refuse("expected a zip directory of hash " + model.directory + ", found " +
           directory);
  std::ranges::sort(entries, {}, &ZipEntry::offset);
}

const ZipEntry &ModelFile::entryOf(const plan::RecordT &record) const {
  auto next =
      std::ranges::upper_bound(entries, record.offset, {}, &ZipEntry::offset);
  if (next != entries.begin()) {
    const ZipEntry &entry = *std::prev(next);
    uint64_t begin = record.offset - entry.offset;
    if (entry.stored && begin <= entry.bytes &&
        record.bytes <= entry.bytes - begin)
      return entry;
  }
  throw Error(ErrorId::ModelFileChanged,
              "'" + file.path() + "' has no entry with bytes " +
                  std::to_string(record.offset) + " to " +
                  std::to_string(record.offset + record.bytes) +
                  ", which the artifact reads; compile it again");
}

void ModelFile::checkSum(const ZipEntry &entry, uint32_t found,
                         const std::string &what) const {
  if (found != entry.crc)
    throw Error(ErrorId::ModelFileChanged,
                "'" + file.path() + "' is damaged: entry '" + entry.name +
                    "', the value of '" + what + "', has the checksum " +
                    crcText(found) + ", expected " + crcText(entry.crc) +
                    "; copy or export the file again");
}

void ModelFile::checkEntry(const ZipEntry &entry,
                           const std::string &what) const {
  constexpr uint64_t kBlockBytes = 1 << 20;
  std::vector<char> block(std::min(kBlockBytes, entry.bytes));
  uint32_t crc = 0;
  for (uint64_t done = 0; done < entry.bytes; done += block.size()) {
    block.resize(std::min<uint64_t>(block.size(), entry.bytes - done));
    file.read(entry.offset + done, block.size(), block.data());
    crc = crc32Of(block.data(), block.size(), crc);
  }
  checkSum(entry, crc, what);
}

void ModelFile::readRows(const plan::RecordT &record,
                         const std::vector<int64_t> &shape, plan::DType dtype,
                         int64_t first, int64_t count, void *to) const {
  uint64_t element = dtypeBytes(dtype);
  std::vector<int64_t> part = shape;
  if (!part.empty())
    part[0] = count;
  uint64_t elements = 1;
  for (int64_t size : part)
    elements *= static_cast<uint64_t>(size);
  if (elements == 0)
    return;
  uint64_t rowElements = part.empty() ? 1 : elements / part[0];
  if (record.strides.empty()) {
    file.read(record.offset + first * rowElements * element, elements * element,
              to);
    return;
  }
  // The span of these rows as it lies in the file, then its elements in order.
  uint64_t span = 1;
  for (size_t i = 0; i < part.size(); ++i)
    span += static_cast<uint64_t>(part[i] - 1) * record.strides[i];
  auto buffer = std::make_unique<char[]>(span * element);
  file.read(record.offset + first * record.strides[0] * element, span * element,
            buffer.get());
  auto type = toScalarType(dtype);
  at::from_blob(to, part, type)
      .copy_(at::from_blob(buffer.get(), part, record.strides, type));
}
