//===- ZipDirectory.h - Where a zip archive keeps its entries ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the central directory of a zip archive (also ZIP64), not its entries.
// A model file (.pt2, .pt) is such an archive whose tensors are stored without
// compression, so that each rank can read its own rows straight from the file.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_ZIPDIRECTORY_H
#define FSDP_SUPPORT_ZIPDIRECTORY_H

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace fsdp {

struct ZipEntry {
  std::string name;    ///< without the archive's root folder
  uint64_t offset = 0; ///< of the first data byte, from the file's beginning
  uint64_t bytes = 0;  ///< uncompressed size
  uint64_t packed = 0; ///< size in the file
  uint32_t crc = 0;    ///< CRC-32 that the directory states
  bool stored = true;  ///< not compressed: `bytes` bytes lie at `offset`
  bool deflated = false;
};

class ZipDirectory {
public:
  /// No two entries share bytes or names. Throws fsdp::Error: FileNotReadable,
  /// NotARegularFile, NotAnArchive, ArchiveDamaged.
  static ZipDirectory read(const std::string &path);

  /// The archive that lies at bytes [offset, offset + bytes) of `path`, such as
  /// a stored entry of another archive. Entries' offsets are from the file's
  /// beginning.
  static ZipDirectory read(const std::string &path, uint64_t offset,
                           uint64_t bytes);

  /// In the directory's order.
  const std::vector<ZipEntry> &entries() const { return all; }

  /// Null if there is none.
  const ZipEntry *find(std::string_view name) const;

  /// Throws ArchiveDamaged if there is no such entry, ArchiveCompressed if it
  /// is compressed.
  const ZipEntry &stored(std::string_view name) const;

  /// The content of a stored entry, which is that of its checksum: else throws
  /// ArchiveDamaged.
  std::string readStored(std::string_view name) const;

  /// Throws ArchiveDamaged if the content of `entry`, stored or deflated, is
  /// not that of its size and checksum; ArchiveCompressed if it is packed in
  /// another way.
  void checkContent(const ZipEntry &entry) const;

  /// The content of a stored or deflated entry. Throws as `checkContent`.
  std::string readContent(const ZipEntry &entry) const;

  /// The folder that all entries lie in, without a slash; empty if they do not
  /// share one.
  const std::string &rootFolder() const { return root; }

  const std::string &path() const { return file; }

  /// Size of the archive: of the file, or `bytes` of a nested one.
  uint64_t fileBytes() const { return size; }

  /// 16 hex digits over names, sizes and CRCs: changes with any entry.
  std::string directoryHash() const;

private:
  std::string file;
  std::string root;
  uint64_t size = 0;
  std::vector<ZipEntry> all;
  std::unordered_map<std::string, size_t> byName;
};

} // namespace fsdp

#endif // FSDP_SUPPORT_ZIPDIRECTORY_H
