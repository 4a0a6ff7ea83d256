//===- MappedFile.h - Bytes of a file as memory -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_MAPPEDFILE_H
#define FSDP_SUPPORT_MAPPEDFILE_H

#include "support/ReadOnlyFile.h"

namespace fsdp {

/// A regular file that stays mapped for reading: what is read of it comes into
/// memory, and the system takes it out again when memory is short. Any thread
/// may read.
class MappedFile {
public:
  /// As `ReadOnlyFile`. Throws fsdp::Error (FileNotReadable).
  MappedFile(std::string path, std::string what,
             const std::string &advice = "");
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const std::string &path() const { return file.path(); }
  /// Size in bytes when it was opened.
  uint64_t bytes() const { return file.bytes(); }
  /// Null if the file is empty.
  const char *data() const { return mapping; }

  /// A file that somebody cuts off while it is mapped ends the process that
  /// reads behind the cut; whoever reads for long asks before. Throws
  /// fsdp::Error (FileNotReadable).
  void checkSize() const;

private:
  ReadOnlyFile file;
  const char *mapping = nullptr;
};

} // namespace fsdp

#endif // FSDP_SUPPORT_MAPPEDFILE_H
