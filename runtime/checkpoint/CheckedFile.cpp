//===- CheckedFile.cpp - Safetensors whose bytes are checked --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/checkpoint/CheckedFile.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "support/AtomicFile.h"
#include "support/Hash.h"
#include "support/JsonIntegers.h"
#include "support/Nesting.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>

using namespace fsdp;

/// What is hashed, and at least read, at once.
static constexpr uint64_t kBlockBytes = 1 << 20;
static constexpr size_t kHashDigits = 16;
/// The disk begins when so many are there.
static constexpr size_t kBlocksToFlush = 16;
/// Shapes are no larger, either.
static constexpr int64_t kMaxOffset = int64_t{1} << 47;

// torch.distributed.checkpoint's names.
static constexpr const char *kShardingInfo = "DCP_SHARDING_INFO";
static constexpr const char *kSavedOffsets = "saved_offsets";
// Ours.
static constexpr const char *kHashes = "FSDP_OPT_XXH3_64_OF_MIB";

static uint64_t countBlocks(uint64_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

namespace {

/// Appends bytes to a file and hashes them block by block.
class BlockWriter {
public:
  explicit BlockWriter(AtomicFile &file) : file(file) {}

  void append(std::string_view bytes) {
    while (!bytes.empty()) {
      // Blocks that lie in one piece are not copied.
      if (rest.empty() && bytes.size() >= kBlockBytes) {
        put(bytes.substr(0, kBlockBytes));
        bytes.remove_prefix(kBlockBytes);
        continue;
      }
      size_t count = std::min<size_t>(bytes.size(), kBlockBytes - rest.size());
      rest.append(bytes.substr(0, count));
      bytes.remove_prefix(count);
      if (rest.size() == kBlockBytes)
        flush();
    }
  }

  /// All hashes.
  std::string finish() {
    if (!rest.empty())
      flush();
    return std::move(hashes);
  }

private:
  void flush() {
    put(rest);
    rest.clear();
  }
  void put(std::string_view block) {
    hashes += toHex(hash64(block));
    file.write(block);
    if (hashes.size() % (kBlocksToFlush * kHashDigits) == 0)
      file.flushEarly();
  }

  AtomicFile &file;
  std::string rest, hashes;
};

} // namespace

static std::map<std::string, std::string>
describe(const std::vector<PieceToStore> &pieces, std::string hashes) {
  nlohmann::ordered_json offsets = nlohmann::ordered_json::object();
  for (const PieceToStore &piece : pieces)
    offsets[piece.name][kSavedOffsets] = piece.region.offset;
  return {{"format", "pt"},
          {"DCP_VERSION", "1.0"},
          {kShardingInfo, offsets.dump()},
          {kHashes, std::move(hashes)}};
}

FileSeal fsdp::writeCheckedFile(const std::string &path,
                                std::vector<PieceToStore> pieces) {
  std::vector<TensorToStore> tensors;
  uint64_t bytes = 0;
  for (const PieceToStore &piece : pieces) {
    tensors.push_back({piece.name, piece.dtype, piece.region.size});
    bytes += piece.region.elements() * dtypeBytes(piece.dtype);
  }
  // The hashes are known at the end; their place is kept free.
  std::string blank(countBlocks(bytes) * kHashDigits, '0');
  std::string head = layoutSafetensors(tensors, describe(pieces, blank));
  std::vector<size_t> order(pieces.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return tensors[i].offset; });

  AtomicFile file(path);
  file.write(head);
  BlockWriter writer(file);
  for (size_t i : order)
    writer.append({pieces[i].data,
                   pieces[i].region.elements() * dtypeBytes(pieces[i].dtype)});
  size_t headBytes = head.size();
  head = layoutSafetensors(tensors, describe(pieces, writer.finish()));
  file.writeAt(0, head);
  file.commit();
  return {std::filesystem::path(path).filename().string(), headBytes + bytes,
          hash128(head)};
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

void CheckedFile::refuse(const std::string &what) const {
  throw Error(ErrorId::CheckpointDamaged,
              "'" + file.path() + "' " + what +
                  "; copy it again, or start from another checkpoint");
}

/// Before anything in it is believed.
void CheckedFile::checkHead(const FileSeal &seal) const {
  if (file.bytes() != seal.bytes)
    refuse("has " + std::to_string(file.bytes()) +
           " bytes; the checkpoint was written with " +
           std::to_string(seal.bytes));
  uint64_t length = 0;
  std::string head(sizeof(length), '\0');
  if (file.bytes() >= head.size()) {
    file.read(0, head.size(), head.data());
    for (size_t i = head.size(); i-- > 0;)
      length = length << 8 | static_cast<uint8_t>(head[i]);
    if (length <= file.bytes() - head.size()) {
      head.resize(head.size() + length);
      file.read(0, head.size(), head.data());
    }
  }
  if (hash128(head) != seal.head)
    refuse("has another header than the checkpoint was written with: bytes of "
           "it have changed");
}

CheckedFile::CheckedFile(const std::string &path,
                         const std::optional<FileSeal> &seal)
    : file(path, "the checkpoint's file",
           "all files of a checkpoint are needed, those of the other ranks "
           "too") {
  if (seal)
    checkHead(*seal);
  SafetensorsFile head(path, ErrorId::CheckpointDamaged);
  dataBegin = head.headBytes();
  const auto &metadata = head.metadata();
  if (auto found = metadata.find(kHashes); found != metadata.end()) {
    hashes = found->second;
    if (hashes->size() != countBlocks(file.bytes() - dataBegin) * kHashDigits)
      refuse("has not one hash for each of its blocks");
  } else if (seal) {
    refuse("has no hashes of its blocks");
  }
  nlohmann::json sharding;
  if (auto found = metadata.find(kShardingInfo); found != metadata.end()) {
    checkJsonDepth(found->second, "the sharding in '" + path + "'");
    sharding = nlohmann::json::parse(found->second, /*callback=*/nullptr,
                                     /*allow_exceptions=*/false);
  }
  for (const auto &[name, tensor] : head.tensors()) {
    Region region{std::vector<int64_t>(tensor.shape.size(), 0), tensor.shape};
    if (!sharding.is_null()) {
      try {
        region.offset =
            readIntegers<int64_t>(sharding.at(name).at(kSavedOffsets));
      } catch (const nlohmann::json::exception &) {
        refuse("does not say where tensor '" + name + "' begins");
      }
      if (region.offset.size() != tensor.shape.size() ||
          std::ranges::any_of(region.offset, [](int64_t each) {
            return each < 0 || each > kMaxOffset;
          }))
        refuse("says that tensor '" + name + "' begins at " +
               toString(region.offset));
    }
    all.push_back({name, tensor.dtype, std::move(region), tensor.offset});
  }
}

uint64_t CheckedFile::blockBegin(uint64_t number) const {
  return std::min(dataBegin + number * kBlockBytes, file.bytes());
}

void CheckedFile::readBlock(uint64_t number, char *to) const {
  uint64_t begin = blockBegin(number), bytes = blockBegin(number + 1) - begin;
  file.read(begin, bytes, to);
  if (hashes &&
      std::string_view(*hashes).substr(number * kHashDigits, kHashDigits) !=
          toHex(hash64({to, bytes})))
    refuse("is damaged: bytes " + std::to_string(begin) + " to " +
           std::to_string(begin + bytes) +
           " are not those that the checkpoint was written with");
}

void CheckedFile::read(uint64_t offset, uint64_t bytes, char *to) {
  while (bytes != 0) {
    uint64_t number = (offset - dataBegin) / kBlockBytes;
    uint64_t begin = blockBegin(number), end = blockBegin(number + 1);
    uint64_t count = std::min(bytes, end - offset);
    if (count == end - begin) {
      readBlock(number, to);
    } else {
      if (inBlock != number) {
        inBlock.reset();
        block.resize(end - begin);
        readBlock(number, block.data());
        inBlock = number;
      }
      std::memcpy(to, block.data() + (offset - begin), count);
    }
    offset += count;
    to += count;
    bytes -= count;
  }
}
