//===- ModelFile.cpp - First values out of the model file -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/ModelFile.h"

#include "runtime/DTypes.h"
#include "runtime/plan/DType.h"
#include "runtime/support/Error.h"
#include "runtime/support/ZipDirectory.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <filesystem>
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
    directory = ZipDirectory::read(file.path()).directoryHash();
  } catch (const Error &error) {
    refuse(error.what());
  }
  if (directory != model.directory)
    refuse("expected a zip directory of hash " + model.directory + ", found " +
           directory);
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
