//===- ModelFile.cpp - First values out of the model file -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/ModelFile.h"

#include "runtime/DTypes.h"
#include "runtime/plan/DType.h"
#include "runtime/support/Error.h"
#include "runtime/support/ZipDirectory.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

using namespace fsdp;

ModelFile::ModelFile(const plan::ModelT &model, const std::string &folder,
                     const std::string &override)
    : path(override.empty()
               ? (std::filesystem::path(folder) / model.path).string()
               : override) {
  descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    throw Error(ErrorId::FileNotReadable,
                "the model file '" + path + "' cannot be opened: " +
                    std::error_code(errno, std::generic_category()).message() +
                    "; the artifact reads the first values of the parameters "
                    "from it; name it with --model=PATH if it was moved");
  auto refuse = [&](const std::string &what) {
    close(descriptor);
    throw Error(ErrorId::ModelFileChanged,
                "'" + path +
                    "' is not the model file that was compiled: " + what +
                    "; compile it again, or name the original with "
                    "--model=PATH");
  };
  std::error_code code;
  uint64_t bytes = std::filesystem::file_size(path, code);
  if (code || bytes != model.bytes)
    refuse("expected " + std::to_string(model.bytes) + " bytes, found " +
           std::to_string(code ? 0 : bytes));
  std::string directory;
  try {
    directory = ZipDirectory::read(path).directoryHash();
  } catch (const Error &error) {
    refuse(error.what());
  }
  if (directory != model.directory)
    refuse("expected a zip directory of hash " + model.directory + ", found " +
           directory);
}

ModelFile::~ModelFile() {
  if (descriptor >= 0)
    close(descriptor);
}

void ModelFile::read(uint64_t offset, uint64_t bytes, void *to) const {
  auto *out = static_cast<char *>(to);
  while (bytes != 0) {
    ssize_t count = pread(descriptor, out, bytes, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      throw Error(ErrorId::FileNotReadable,
                  "the model file '" + path + "' cannot be read at byte " +
                      std::to_string(offset) + ": " +
                      (count == 0
                           ? std::string("it ends there")
                           : std::error_code(errno, std::generic_category())
                                 .message()));
    out += count;
    offset += static_cast<uint64_t>(count);
    bytes -= static_cast<uint64_t>(count);
  }
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
    read(record.offset + first * rowElements * element, elements * element, to);
    return;
  }
  // The span of these rows as it lies in the file, then its elements in order.
  uint64_t span = 1;
  for (size_t i = 0; i < part.size(); ++i)
    span += static_cast<uint64_t>(part[i] - 1) * record.strides[i];
  auto buffer = std::make_unique<char[]>(span * element);
  read(record.offset + first * record.strides[0] * element, span * element,
       buffer.get());
  auto type = toScalarType(dtype);
  at::from_blob(to, part, type)
      .copy_(at::from_blob(buffer.get(), part, record.strides, type));
}
