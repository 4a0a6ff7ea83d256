//===- Samples.cpp - Rows of safetensors files ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/Samples.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "support/Error.h"

#include <algorithm>
#include <cstring>
#include <span>

using namespace fsdp;

namespace {

class SampleReader final : public RowReader {
public:
  SampleReader(const SafetensorsFile &file, const StoredTensor &stored)
      : file(file), stored(stored),
        rowBytes(stored.shape[0] == 0
                     ? 0
                     : stored.bytes / static_cast<uint64_t>(stored.shape[0])) {}

  uint64_t rows() const override {
    return static_cast<uint64_t>(stored.shape[0]);
  }
  void read(uint64_t first, uint64_t count, std::byte *to) const override {
    file.checkSize();
    std::memcpy(to, stored.data + first * rowBytes, count * rowBytes);
  }

private:
  const SafetensorsFile &file;
  const StoredTensor &stored;
  uint64_t rowBytes;
};

void check(const plan::InputT &input, const StoredTensor &stored,
           const std::string &where) {
  checkElementType(input, stored, where);
  if (input.shape.empty())
    throw Error(ErrorId::DataShape,
                where + "is for an input without dims, which has no rows of "
                        "samples; leave it out of the file");
  auto describeRows = [](std::vector<int64_t> shape) {
    return "rows of shape " +
           toString(std::span<const int64_t>(shape).subspan(1));
  };
  if (stored.shape.empty() ||
      !std::equal(stored.shape.begin() + 1, stored.shape.end(),
                  input.shape.begin() + 1, input.shape.end()))
    throw Error(ErrorId::DataShape, where + "has shape " +
                                        toString(stored.shape) + "; expected " +
                                        describeRows(input.shape) +
                                        ", samples along the first dim");
  if (stored.shape[0] == 0 && input.shape[0] != 0)
    throw Error(ErrorId::DataShape, where + "has no rows");
}

} // namespace

void fsdp::checkElementType(const plan::InputT &input,
                            const StoredTensor &stored,
                            const std::string &where) {
  if (stored.dtype != input.dtype)
    throw Error(ErrorId::DataType,
                where + "has element type " +
                    std::string(dtypeName(stored.dtype)) + "; expected " +
                    std::string(dtypeName(input.dtype)) +
                    " as the model was exported with; convert it");
}

std::vector<std::string> Samples::names() const {
  std::vector<std::string> all;
  for (const auto &[name, tensor] : file.tensors())
    all.push_back(name);
  return all;
}

std::unique_ptr<RowReader> Samples::open(const plan::InputT &input) const {
  auto found = file.tensors().find(input.name);
  if (found == file.tensors().end())
    return nullptr;
  check(input, found->second,
        "tensor '" + input.name + "' of " + describe() + " ");
  return std::make_unique<SampleReader>(file, found->second);
}
