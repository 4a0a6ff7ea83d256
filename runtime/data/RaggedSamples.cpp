//===- RaggedSamples.cpp - Rows of lengths of their own -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/RaggedSamples.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "runtime/data/LabelCount.h"
#include "support/Error.h"
#include "support/Format.h"
#include "support/Hash.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace fsdp;

//===----------------------------------------------------------------------===//
// What is behind the tokens
//===----------------------------------------------------------------------===//

/// The bytes of an element; empty if the type does not hold the number.
static std::string encode(double value, plan::DType dtype) {
  auto real = [](auto number) {
    return std::string(reinterpret_cast<const char *>(&number), sizeof(number));
  };
  auto whole = [&]<typename T>(T) -> std::string {
    // Both ends are powers of two, which doubles hold.
    double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
    double least = std::numeric_limits<T>::is_signed ? -end : 0;
    if (value != std::floor(value) || value < least || value >= end)
      return {};
    return real(static_cast<T>(value));
  };
  switch (dtype) {
  case plan::DType::f64:
    return real(value);
  case plan::DType::f32:
    return real(static_cast<float>(value));
  case plan::DType::i64:
    return whole(int64_t{});
  case plan::DType::i32:
    return whole(int32_t{});
  case plan::DType::i16:
    return whole(int16_t{});
  case plan::DType::i8:
    return whole(int8_t{});
  case plan::DType::u8:
    return whole(uint8_t{});
  case plan::DType::bool_:
    return value == 0 || value == 1 ? real(static_cast<uint8_t>(value))
                                    : std::string();
  default:
    // Zero is zero in all of them.
    return value == 0 ? std::string(dtypeBytes(dtype), '\0') : std::string();
  }
}

std::string RaggedSamples::encodePadding(const plan::InputT &input) const {
  auto found = std::ranges::find(padding, input.name,
                                 &std::pair<std::string, double>::first);
  if (found == padding.end())
    throw Error(
        ErrorId::DataPadding,
        "rows of " + describe() +
            " have lengths of their own, and nothing says what input '" +
            input.name +
            "' has behind the shorter ones; say --data-options=pad=" +
            input.name + ":VALUE, or data: {pad: {" + input.name +
            ": VALUE}} in the config");
  std::string bytes = encode(found->second, input.dtype);
  if (bytes.empty())
    throw Error(ErrorId::DataPadding,
                "input '" + input.name + "' is padded with " +
                    formatNumber(found->second) + ", which its type " +
                    std::string(dtypeName(input.dtype)) +
                    " does not hold; give it another number");
  return bytes;
}

//===----------------------------------------------------------------------===//
// Readers
//===----------------------------------------------------------------------===//

/// Of an input with as many values as there are tokens.
class RaggedSamples::Reader final : public RowReader {
public:
  Reader(const RaggedSamples &source, const StoredTensor &stored,
         uint64_t tokens, uint64_t tokenBytes, const std::string &element)
      : source(source), stored(stored), padTo(tokens), tokenBytes(tokenBytes) {
    for (uint64_t i = 0; i < tokens * tokenBytes; i += element.size())
      padding += element;
  }

  uint64_t rows() const override { return source.count; }
  uint64_t tokens() const override { return padTo; }
  void read(uint64_t first, uint64_t count, std::byte *to) const override {
    source.file.checkSize();
    for (uint64_t row = first; row < first + count; ++row) {
      auto [begin, length] = source.find(row);
      // Programs for shorter rows are not asked for longer ones.
      uint64_t own = std::min(length, padTo);
      std::memcpy(to, stored.data + begin * tokenBytes, own * tokenBytes);
      std::memcpy(to + own * tokenBytes, padding.data(),
                  (padTo - own) * tokenBytes);
      to += padTo * tokenBytes;
    }
  }

private:
  const RaggedSamples &source;
  const StoredTensor &stored;
  const uint64_t padTo, tokenBytes;
  std::string padding; ///< of a whole row
};

/// Which tokens are there.
class RaggedSamples::MaskReader final : public RowReader {
public:
  MaskReader(const RaggedSamples &source, uint64_t tokens, plan::DType dtype)
      : source(source), padTo(tokens), one(encode(1, dtype)) {}

  uint64_t rows() const override { return source.count; }
  uint64_t tokens() const override { return padTo; }
  void read(uint64_t first, uint64_t count, std::byte *to) const override {
    source.file.checkSize();
    std::memset(to, 0, count * padTo * one.size());
    for (uint64_t row = first; row < first + count; ++row) {
      uint64_t own = std::min(source.find(row).second, padTo);
      for (uint64_t i = 0; i < own; ++i)
        std::memcpy(to + i * one.size(), one.data(), one.size());
      to += padTo * one.size();
    }
  }

private:
  const RaggedSamples &source;
  const uint64_t padTo;
  const std::string one;
};

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

bool RaggedSamples::isOne(const std::string &path) {
  return SafetensorsFile(path).tensors().contains(std::string(kRowOffsets));
}

RaggedSamples::RaggedSamples(const std::string &path, const plan::DataT &data)
    : Samples(path) {
  for (const auto &each : data.pad)
    padding.emplace_back(each->input, each->value);
  // What all losses and masks of Hugging Face's models mean by these.
  padding.emplace_back(getLabelsInput(data), kIgnoredLabel);
  padding.emplace_back(kAttentionMask, 0);
  readOffsets();
}

uint64_t RaggedSamples::offset(uint64_t row) const {
  int64_t number;
  std::memcpy(&number, offsets->data + row * sizeof(number), sizeof(number));
  return static_cast<uint64_t>(number);
}

std::pair<uint64_t, uint64_t> RaggedSamples::find(uint64_t row) const {
  uint64_t begin = offset(row), end = offset(row + 1);
  // They were checked, but the file is one that others may write to.
  if (end <= begin || end > tokens)
    throw Error(ErrorId::FileNotReadable,
                describe() + " has other rows than when it was opened; leave "
                             "files alone that a run reads");
  return {begin, end - begin};
}

void RaggedSamples::readOffsets() {
  offsets = &file.tensors().at(std::string(kRowOffsets));
  auto refuse = [&](const std::string &what) {
    throw Error(ErrorId::DataFileInvalid,
                "'" + std::string(kRowOffsets) + "' of " + describe() +
                    " says where rows begin and the last one ends: expected "
                    "numbers of type i64 in one dim, from 0 on and each above "
                    "the one before, found " +
                    what);
  };
  if (offsets->dtype != plan::DType::i64 || offsets->shape.size() != 1)
    refuse(std::string(dtypeName(offsets->dtype)) + toString(offsets->shape));
  if (offsets->shape[0] < 2)
    refuse(std::to_string(offsets->shape[0]) + " numbers");
  count = static_cast<uint64_t>(offsets->shape[0]) - 1;
  file.checkSize();
  if (offset(0) != 0)
    refuse(std::to_string(static_cast<int64_t>(offset(0))) + " as the first");
  for (uint64_t row = 0; row < count; ++row) {
    uint64_t begin = offset(row), end = offset(row + 1);
    // A negative one is above all others.
    if (end <= begin ||
        end > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      refuse(std::to_string(static_cast<int64_t>(end)) + " behind " +
             std::to_string(begin) + " at row " + std::to_string(row));
    if (end - begin > most.second)
      most = {row, end - begin};
  }
  tokens = offset(count);
}

std::vector<uint64_t> RaggedSamples::of(std::span<const uint64_t> rows) const {
  file.checkSize();
  std::vector<uint64_t> all;
  all.reserve(rows.size());
  for (uint64_t row : rows)
    all.push_back(find(row).second);
  return all;
}

std::string RaggedSamples::hash() const {
  file.checkSize();
  return hash128({offsets->data, offsets->bytes});
}

std::vector<std::string> RaggedSamples::names() const {
  std::vector<std::string> all = Samples::names();
  std::erase(all, kRowOffsets);
  return all;
}

bool RaggedSamples::makes(const plan::InputT &input) const {
  bool isCount = !isFloat(input.dtype) && !encode(1, input.dtype).empty();
  return input.name == kAttentionMask && isCount && input.shape.size() == 2 &&
         !file.tensors().contains(input.name);
}

std::unique_ptr<RowReader>
RaggedSamples::open(const plan::InputT &input) const {
  if (makes(input))
    return std::make_unique<MaskReader>(
        *this, static_cast<uint64_t>(input.shape[1]), input.dtype);
  auto found = file.tensors().find(input.name);
  if (found == file.tensors().end() || input.name == kRowOffsets)
    return nullptr;
  const StoredTensor &stored = found->second;
  const std::vector<int64_t> &shape = stored.shape;
  std::string where = "tensor '" + input.name + "' of " + describe() + " ";
  if (shape.size() == input.shape.size()) {
    std::unique_ptr<RowReader> reader = Samples::open(input);
    if (reader->rows() != count)
      throw Error(ErrorId::DataShape,
                  where + "has " + std::to_string(reader->rows()) +
                      " rows, and '" + std::string(kRowOffsets) + "' has " +
                      std::to_string(count) + "; give it as many");
    return reader;
  }
  checkElementType(input, stored, where);
  if (shape.empty() || shape.size() + 1 != input.shape.size() ||
      static_cast<uint64_t>(shape[0]) != tokens ||
      !std::equal(shape.begin() + 1, shape.end(), input.shape.begin() + 2)) {
    std::vector<int64_t> expected;
    if (input.shape.size() > 1) {
      expected.assign(input.shape.begin() + 1, input.shape.end());
      expected[0] = static_cast<int64_t>(tokens);
    }
    throw Error(ErrorId::DataShape,
                where + "has shape " + toString(shape) + "; expected " +
                    (expected.empty()
                         ? ""
                         : toString(expected) + ", the tokens of all rows one "
                                                "behind the other, or ") +
                    std::to_string(count) + " rows of the input's shape " +
                    toString(input.shape));
  }
  auto length = static_cast<uint64_t>(input.shape[1]);
  uint64_t tokenBytes = stored.bytes / tokens;
  return std::make_unique<Reader>(*this, stored, length, tokenBytes,
                                  encodePadding(input));
}
