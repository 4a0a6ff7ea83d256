//===- MegatronIndex.cpp - What stands beside Megatron's tokens -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nine bytes of magic, then little endian and without padding: a version (u64),
// the element type's code (u8), the numbers of sequences and of document marks
// (u64 each); the sequences' lengths in tokens (i32 each), their offsets in
// bytes (i64 each), the numbers of the sequences that documents begin with, and
// of all sequences at the end (i64 each).
//
//===----------------------------------------------------------------------===//

#include "runtime/data/MegatronIndex.h"

#include "plan/DType.h"
#include "support/Error.h"
#include "support/MappedFile.h"

#include <cstring>
#include <string_view>

using namespace fsdp;

static constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
static constexpr uint64_t kVersion = 1;

static bool findType(uint8_t code, plan::DType &type) {
  static constexpr std::pair<uint8_t, plan::DType> kCodes[] = {
      {1, plan::DType::u8},  {2, plan::DType::i8},  {3, plan::DType::i16},
      {4, plan::DType::i32}, {5, plan::DType::i64}, {8, plan::DType::u16}};
  for (auto [each, name] : kCodes)
    if (each == code) {
      type = name;
      return true;
    }
  return false;
}

template <typename T>
static T take(const char *&from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  from += sizeof(T);
  return value;
}

bool MegatronIndex::isIndex(const char *bytes, uint64_t size) {
  return size >= kMagic.size() &&
         std::string_view(bytes, kMagic.size()) == kMagic;
}

std::string MegatronIndex::pathOf(const std::string &tokens) {
  static constexpr std::string_view kEnd = ".bin";
  if (!tokens.ends_with(kEnd))
    return {};
  return tokens.substr(0, tokens.size() - kEnd.size()) + ".idx";
}

MegatronIndex MegatronIndex::read(const std::string &path) {
  MappedFile file(path, "the index");
  auto refuse = [&](const std::string &what) {
    throw Error(ErrorId::DataFileInvalid,
                "'" + path + "' is no index of Megatron: " + what);
  };
  constexpr uint64_t kHead = 9 + 8 + 1 + 8 + 8;
  if (file.bytes() < kHead || !isIndex(file.data(), file.bytes()))
    refuse(file.bytes() < kHead
               ? "it has " + std::to_string(file.bytes()) + " bytes"
               : "it does not begin with MMIDIDX");
  const char *at = file.data() + kMagic.size();
  if (auto version = take<uint64_t>(at); version != kVersion)
    refuse("it has version " + std::to_string(version) + ", expected " +
           std::to_string(kVersion));
  MegatronIndex index{};
  if (auto code = take<uint8_t>(at); !findType(code, index.type))
    refuse("its tokens have the type " + std::to_string(code) +
           ", expected that of integers");
  auto sequences = take<uint64_t>(at), marks = take<uint64_t>(at);
  // Divided, since the product may overflow.
  uint64_t room = file.bytes() - kHead;
  if (sequences > room / 12 || marks > (room - sequences * 12) / 8 ||
      room != sequences * 12 + marks * 8)
    refuse("it has " + std::to_string(file.bytes()) + " bytes, which are not " +
           std::to_string(sequences) + " sequences and " +
           std::to_string(marks) + " marks of documents");
  const char *lengths = at, *offsets = at + sequences * 4;
  for (uint64_t i = 0; i < sequences; ++i) {
    auto length = take<int32_t>(lengths);
    auto offset = take<int64_t>(offsets);
    if (length < 0 ||
        offset != static_cast<int64_t>(index.tokens * dtypeBytes(index.type)))
      refuse("sequence " + std::to_string(i) + " lies at byte " +
             std::to_string(offset) + ", expected " +
             std::to_string(index.tokens * dtypeBytes(index.type)) +
             ", behind the one before");
    index.tokens += static_cast<uint64_t>(length);
  }
  return index;
}
