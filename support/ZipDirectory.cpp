//===- ZipDirectory.cpp - Where a zip archive keeps its entries -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// After APPNOTE.TXT 6.3.10: end record (4.3.16), its ZIP64 form (4.3.14,
// 4.3.15), central headers (4.3.12), local headers (4.3.7).
//
//===----------------------------------------------------------------------===//

#include "support/ZipDirectory.h"

#include "support/Crc.h"
#include "support/Error.h"
#include "support/Hash.h"
#include "support/ReadOnlyFile.h"

#include <zlib.h>

#include <algorithm>

using namespace fsdp;

namespace {

constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64LocatorSignature = 0x07064b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kCentralSignature = 0x02014b50;
constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kEnd64LocatorBytes = 20;
constexpr uint64_t kEnd64Bytes = 56;
constexpr uint64_t kCentralBytes = 46;
constexpr uint64_t kLocalBytes = 30;
constexpr uint64_t kMaxComment = 65535;
constexpr uint16_t kZip64Extra = 1;

/// What deflate packs into one byte at most.
constexpr uint64_t kMostInflation = 1032;
/// What is read at once.
constexpr uint64_t kBlockBytes = 1 << 20;

/// A bounds-checked window of the file.
class Archive {
public:
  Archive(const std::string &path, uint64_t base, uint64_t size)
      : path(path), file(path, "the archive"), base(base), size(size) {}

  [[noreturn]] void damaged(const std::string &what) const {
    throw Error(ErrorId::ArchiveDamaged,
                "'" + path + "' is a damaged zip archive: " + what +
                    "; copy or export it again");
  }

  std::string bytes(uint64_t offset, uint64_t count, const char *what) const {
    if (offset > size || count > size - offset ||
        base + offset + count > file.bytes())
      damaged(std::string(what) + " lies beyond the end of the file");
    std::string buffer(count, '\0');
    file.read(base + offset, count, buffer.data());
    return buffer;
  }

  const std::string &path;

private:
  ReadOnlyFile file;
  uint64_t base, size;
};

/// Bytes that go by, and their CRC-32.
struct Checksum {
  void add(const char *data, size_t count) {
    bytes += count;
    crc = crc32Of(data, count, crc);
  }

  uint64_t bytes = 0;
  uint32_t crc = 0;
};

/// Unpacks the `packed` bytes of `archive`, no more than `limit` and one, block
/// by block, to the end of `to` if it is not null. The sums are wrong if they
/// are no deflated stream.
Checksum inflateAll(const Archive &archive, uint64_t packed, uint64_t limit,
                    std::string *to) {
  constexpr uint64_t block = 1 << 16;
  Checksum sum;
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    throw std::bad_alloc();
  std::string input, output(block, '\0');
  int status = Z_OK;
  for (uint64_t done = 0; done < packed && status == Z_OK;) {
    input = archive.bytes(done, std::min(block, packed - done), "an entry");
    done += input.size();
    stream.next_in = reinterpret_cast<Bytef *>(input.data());
    stream.avail_in = input.size();
    do {
      stream.next_out = reinterpret_cast<Bytef *>(output.data());
      stream.avail_out = block;
      status = inflate(&stream, Z_NO_FLUSH);
      sum.add(output.data(), block - stream.avail_out);
      if (to)
        to->append(output, 0, block - stream.avail_out);
    } while (status == Z_OK && stream.avail_out == 0 && sum.bytes <= limit);
    if (sum.bytes > limit)
      break;
  }
  inflateEnd(&stream);
  return sum;
}

/// Little-endian fields of a header that is long enough.
template <typename T>
T field(std::string_view header, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<T>(static_cast<T>(static_cast<uint8_t>(header[at + i]))
                            << (8 * i));
  return value;
}

struct End {
  uint64_t entries, bytes, offset;
};

End readEnd(const Archive &archive, uint64_t size) {
  uint64_t tailBytes = std::min(size, kEndBytes + kMaxComment);
  std::string tail =
      archive.bytes(size - tailBytes, tailBytes, "the end record");
  size_t at = std::string::npos;
  for (size_t i = tailBytes >= kEndBytes ? tailBytes - kEndBytes + 1 : 0;
       i-- > 0;)
    if (field<uint32_t>(tail, i) == kEndSignature &&
        i + kEndBytes + field<uint16_t>(tail, i + 20) == tailBytes) {
      at = i;
      break;
    }
  if (at == std::string::npos) {
    std::string head =
        archive.bytes(0, std::min<uint64_t>(size, 4), "the beginning");
    if (head.size() == 4 && field<uint32_t>(head, 0) == kLocalSignature)
      archive.damaged("it ends after " + std::to_string(size) +
                      " bytes without a directory");
    throw Error(ErrorId::NotAnArchive,
                "'" + archive.path +
                    "' is not a zip archive; expected a file of "
                    "torch.export.save (.pt2) or torch.jit.save (.pt)");
  }
  End end{field<uint16_t>(tail, at + 10), field<uint32_t>(tail, at + 12),
          field<uint32_t>(tail, at + 16)};
  bool is64 = end.entries == 0xffff || end.bytes == 0xffffffff ||
              end.offset == 0xffffffff;
  uint64_t endOffset = size - tailBytes + at;
  if (!is64 || endOffset < kEnd64LocatorBytes)
    return end;
  std::string locator = archive.bytes(endOffset - kEnd64LocatorBytes,
                                      kEnd64LocatorBytes, "the end locator");
  if (field<uint32_t>(locator, 0) != kEnd64LocatorSignature)
    return end;
  std::string record = archive.bytes(field<uint64_t>(locator, 8), kEnd64Bytes,
                                     "the 64-bit end record");
  if (field<uint32_t>(record, 0) != kEnd64Signature)
    archive.damaged("the 64-bit end record has another signature");
  return {field<uint64_t>(record, 32), field<uint64_t>(record, 40),
          field<uint64_t>(record, 48)};
}

/// Replaces the fields of a central header that are all ones by those of its
/// ZIP64 extra field, in the order that the format prescribes.
void widen(const Archive &archive, std::string_view extra, uint64_t &bytes,
           uint64_t &packed, uint64_t &offset) {
  while (extra.size() >= 4) {
    uint16_t id = field<uint16_t>(extra, 0), length = field<uint16_t>(extra, 2);
    extra.remove_prefix(4);
    if (length > extra.size())
      archive.damaged("an entry's extra field is cut off");
    if (id == kZip64Extra) {
      std::string_view wide = extra.substr(0, length);
      for (uint64_t *value : {&bytes, &packed, &offset}) {
        if (*value != 0xffffffff)
          continue;
        if (wide.size() < 8)
          archive.damaged("an entry's 64-bit sizes are cut off");
        *value = field<uint64_t>(wide, 0);
        wide.remove_prefix(8);
      }
      return;
    }
    extra.remove_prefix(length);
  }
}

} // namespace

ZipDirectory ZipDirectory::read(const std::string &path) {
  return read(path, 0, ReadOnlyFile(path, "the archive").bytes());
}

/// An archive of 100 KB could otherwise state the same bytes thousands of
/// times.
static void checkOverlaps(const Archive &archive,
                          std::vector<std::pair<uint64_t, size_t>> begins,
                          const std::vector<ZipEntry> &entries) {
  std::ranges::sort(begins);
  for (size_t i = 1; i < begins.size(); ++i) {
    const ZipEntry &before = entries[begins[i - 1].second];
    if (before.offset + before.packed > begins[i].first)
      archive.damaged("the bytes of entry '" + before.name +
                      "' are also those of entry '" +
                      entries[begins[i].second].name + "'");
  }
}

/// Takes an entry off the central directory `rest`; where its local header
/// begins, in the archive.
static std::pair<ZipEntry, uint64_t> takeEntry(const Archive &archive,
                                               std::string_view &rest) {
  uint16_t flags = field<uint16_t>(rest, 8), method = field<uint16_t>(rest, 10);
  uint64_t local = field<uint32_t>(rest, 42);
  size_t nameBytes = field<uint16_t>(rest, 28);
  size_t extraBytes = field<uint16_t>(rest, 30);
  size_t commentBytes = field<uint16_t>(rest, 32);
  ZipEntry entry;
  entry.crc = field<uint32_t>(rest, 16);
  entry.packed = field<uint32_t>(rest, 20);
  entry.bytes = field<uint32_t>(rest, 24);
  rest.remove_prefix(kCentralBytes);
  if (rest.size() < nameBytes + extraBytes + commentBytes)
    archive.damaged("its directory is cut off");
  entry.name = rest.substr(0, nameBytes);
  widen(archive, rest.substr(nameBytes, extraBytes), entry.bytes, entry.packed,
        local);
  rest.remove_prefix(nameBytes + extraBytes + commentBytes);
  // Bit 0: encrypted.
  entry.stored = method == 0 && !(flags & 1) && entry.packed == entry.bytes;
  entry.deflated = method == 8 && !(flags & 1);
  return {std::move(entry), local};
}

/// Where an entry's bytes begin, in an archive of so many.
static uint64_t findData(const Archive &archive, uint64_t bytes,
                         const ZipEntry &entry, uint64_t local) {
  std::string header =
      archive.bytes(local, kLocalBytes, "the header of an entry");
  if (field<uint32_t>(header, 0) != kLocalSignature)
    archive.damaged("entry '" + entry.name + "' has no header");
  // The local extra field may differ from the central one: it aligns data.
  uint64_t data = local + kLocalBytes + field<uint16_t>(header, 26) +
                  field<uint16_t>(header, 28);
  if (data > bytes || entry.packed > bytes - data)
    archive.damaged("entry '" + entry.name +
                    "' lies beyond the end of the file");
  if (entry.deflated && entry.bytes / kMostInflation > entry.packed)
    archive.damaged("entry '" + entry.name + "' states " +
                    std::to_string(entry.bytes) + " bytes, and " +
                    std::to_string(entry.packed) +
                    " packed ones cannot hold them");
  return data;
}

/// The folder that all entries are in; empty if there is none.
static std::string findRoot(const std::vector<ZipEntry> &entries) {
  if (entries.empty())
    return "";
  std::string_view first = entries.front().name;
  std::string_view prefix = first.substr(0, first.find('/') + 1);
  bool isRoot = !prefix.empty() &&
                std::ranges::all_of(entries, [&](const ZipEntry &entry) {
                  return entry.name.size() > prefix.size() &&
                         entry.name.starts_with(prefix);
                });
  return std::string(isRoot ? prefix.substr(0, prefix.size() - 1) : "");
}

ZipDirectory ZipDirectory::read(const std::string &path, uint64_t offset,
                                uint64_t bytes) {
  Archive archive(path, offset, bytes);
  End end = readEnd(archive, bytes);
  std::string central =
      archive.bytes(end.offset, end.bytes, "the central directory");

  std::vector<std::pair<uint64_t, size_t>> begins;
  ZipDirectory directory;
  directory.file = path;
  directory.size = bytes;
  std::string_view rest = central;
  for (uint64_t i = 0; i < end.entries; ++i) {
    if (rest.size() < kCentralBytes ||
        field<uint32_t>(rest, 0) != kCentralSignature)
      archive.damaged("its directory states " + std::to_string(end.entries) +
                      " entries and holds " + std::to_string(i));
    auto [entry, local] = takeEntry(archive, rest);
    entry.offset = offset + findData(archive, bytes, entry, local);
    begins.emplace_back(offset + local, directory.all.size());
    directory.all.push_back(std::move(entry));
  }
  checkOverlaps(archive, std::move(begins), directory.all);

  directory.root = findRoot(directory.all);
  if (!directory.root.empty())
    for (ZipEntry &entry : directory.all)
      entry.name.erase(0, directory.root.size() + 1);
  // Readers differ in which of two they take.
  for (size_t i = 0; i < directory.all.size(); ++i)
    if (!directory.byName.emplace(directory.all[i].name, i).second)
      archive.damaged("it has two entries '" + directory.all[i].name + "'");
  return directory;
}

const ZipEntry *ZipDirectory::find(std::string_view name) const {
  auto it = byName.find(std::string(name));
  return it == byName.end() ? nullptr : &all[it->second];
}

const ZipEntry &ZipDirectory::stored(std::string_view name) const {
  const ZipEntry *entry = find(name);
  if (!entry)
    throw Error(ErrorId::ArchiveDamaged, "'" + file + "' has no entry '" +
                                             std::string(name) +
                                             "'; export the model again");
  if (!entry->stored)
    throw Error(ErrorId::ArchiveCompressed,
                "entry '" + std::string(name) + "' of '" + file +
                    "' is compressed or encrypted; expected plain bytes, as "
                    "torch.export.save and torch.jit.save write them");
  return *entry;
}

static void checkSum(const Archive &archive, const ZipEntry &entry,
                     const Checksum &sum) {
  if (sum.bytes != entry.bytes)
    archive.damaged("entry '" + entry.name + "' states " +
                    std::to_string(entry.bytes) + " bytes, and holds others");
  if (sum.crc != entry.crc)
    archive.damaged("entry '" + entry.name + "' has the checksum " +
                    crcText(sum.crc) + ", expected " + crcText(entry.crc));
}

std::string ZipDirectory::readStored(std::string_view name) const {
  const ZipEntry &entry = stored(name);
  const Archive archive(file, entry.offset, entry.bytes);
  std::string content = archive.bytes(0, entry.bytes, "an entry");
  Checksum sum;
  sum.add(content.data(), content.size());
  checkSum(archive, entry, sum);
  return content;
}

void ZipDirectory::checkContent(const ZipEntry &entry) const {
  if (!entry.stored && !entry.deflated)
    stored(entry.name);
  Archive archive(file, entry.offset, entry.packed);
  if (entry.stored) {
    Checksum sum;
    for (uint64_t done = 0; done < entry.bytes; done = sum.bytes) {
      std::string block = archive.bytes(
          done, std::min(kBlockBytes, entry.bytes - done), "an entry");
      sum.add(block.data(), block.size());
    }
    return checkSum(archive, entry, sum);
  }
  checkSum(archive, entry,
           inflateAll(archive, entry.packed, entry.bytes, /*to=*/nullptr));
}

std::string ZipDirectory::readContent(const ZipEntry &entry) const {
  if (!entry.deflated)
    return readStored(entry.name);
  Archive archive(file, entry.offset, entry.packed);
  std::string content;
  checkSum(archive, entry,
           inflateAll(archive, entry.packed, entry.bytes, &content));
  return content;
}

std::string ZipDirectory::directoryHash() const {
  std::string text;
  for (const ZipEntry &entry : all) {
    text += entry.name;
    // No name contains a zero byte, so that no two directories give one text.
    text += '\0';
    text += toHex(entry.bytes) + toHex(entry.crc);
  }
  return toHex(hash64(text));
}
