//===- TokenFile.cpp - One file of tokens ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/TokenFile.h"

#include "plan/DType.h"
#include "runtime/data/MegatronIndex.h"
#include "support/Error.h"

#include <cstring>
#include <filesystem>

using namespace fsdp;
using plan::DType;
using plan::TokenFormat;

/// llm.c's header: 256 numbers of 32 bits, the first ones a magic number, a
/// version and the number of tokens.
static constexpr uint64_t kHeaderBytes = 256 * 4;

static constexpr struct {
  uint32_t magic, version;
  DType type;
} kHeaders[] = {{20240520, 1, DType::u16}, {20240801, 7, DType::u32}};

/// As the file's first numbers; none in a file that is shorter.
static uint32_t readNumber(const MappedFile &file, uint64_t index) {
  uint32_t number = 0;
  if (file.bytes() >= (index + 1) * sizeof(number))
    std::memcpy(&number, file.data() + index * sizeof(number), sizeof(number));
  return number;
}

void TokenFile::refuse(const std::string &what) const {
  throw Error(ErrorId::DataFileInvalid, "token file '" + path() + "' " + what);
}

TokenFile::TokenFile(const std::string &path, TokenFormat format, DType rawType)
    : file(path, "the token file"), type(rawType) {
  if (file.bytes() == 0)
    refuse("is empty");
  if (MegatronIndex::isIndex(file.data(), file.bytes()))
    refuse("is an index; name the .bin file that it belongs to");
  if (format == TokenFormat::recognized)
    format = recognize();
  if (format == TokenFormat::llm_c)
    readLlmC();
  else if (format == TokenFormat::megatron)
    readMegatron();
  else
    setTokens(0, rawType);
}

TokenFormat TokenFile::recognize() const {
  for (const auto &header : kHeaders)
    if (readNumber(file, 0) == header.magic &&
        readNumber(file, 1) == header.version)
      return TokenFormat::llm_c;
  std::error_code failure;
  std::string index = MegatronIndex::pathOf(path());
  if (!index.empty() && std::filesystem::exists(index, failure))
    return TokenFormat::megatron;
  return TokenFormat::raw;
}

/// All from `begin` on.
void TokenFile::setTokens(uint64_t begin, DType of) {
  uint64_t bytes = file.bytes() - begin, each = dtypeBytes(of);
  if (bytes % each != 0)
    refuse("has " + std::to_string(bytes) + " bytes of tokens, which are no " +
           std::string(dtypeName(of)) + " numbers; was it cut off?");
  offset = begin;
  count = bytes / each;
  type = of;
}

void TokenFile::readLlmC() {
  uint32_t magic = readNumber(file, 0), version = readNumber(file, 1);
  for (const auto &header : kHeaders) {
    if (magic != header.magic || version != header.version)
      continue;
    if (file.bytes() < kHeaderBytes)
      refuse("ends within its header");
    setTokens(kHeaderBytes, header.type);
    if (uint32_t stated = readNumber(file, 2); stated != count)
      refuse("states " + std::to_string(stated) + " tokens and holds " +
             std::to_string(count) + "; was it cut off?");
    return;
  }
  refuse("does not begin as llm.c's do; found the numbers " +
         std::to_string(magic) + " and " + std::to_string(version) +
         ", expected 20240520 and 1, or 20240801 and 7");
}

void TokenFile::readMegatron() {
  std::string path = MegatronIndex::pathOf(file.path());
  if (path.empty())
    refuse("is not called .bin, as Megatron's are, so there is no index");
  MegatronIndex index = MegatronIndex::read(path);
  setTokens(0, index.type);
  if (index.tokens != count)
    refuse("holds " + std::to_string(count) + " tokens, and its index '" +
           path + "' states " + std::to_string(index.tokens) +
           "; was it cut off?");
}

template <typename From, typename To>
static void convert(const char *from, uint64_t number, std::byte *to) {
  for (uint64_t i = 0; i < number; ++i) {
    // Neither file nor arena promise an alignment.
    From token;
    std::memcpy(&token, from + i * sizeof(From), sizeof(From));
    auto converted = static_cast<To>(token);
    std::memcpy(to + i * sizeof(To), &converted, sizeof(To));
  }
}

template <typename From>
static void convert(const char *from, uint64_t number, DType as,
                    std::byte *to) {
  if (as == DType::i32)
    convert<From, int32_t>(from, number, to);
  else
    convert<From, int64_t>(from, number, to);
}

void TokenFile::read(uint64_t first, uint64_t number, DType as,
                     std::byte *to) const {
  file.checkSize();
  const char *from = file.data() + offset + first * dtypeBytes(type);
  switch (type) {
  case DType::u8:
    return convert<uint8_t>(from, number, as, to);
  case DType::i8:
    return convert<int8_t>(from, number, as, to);
  case DType::u16:
    return convert<uint16_t>(from, number, as, to);
  case DType::i16:
    return convert<int16_t>(from, number, as, to);
  case DType::u32:
    return convert<uint32_t>(from, number, as, to);
  case DType::i32:
    return convert<int32_t>(from, number, as, to);
  default:
    return convert<int64_t>(from, number, as, to);
  }
}
