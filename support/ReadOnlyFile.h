//===- ReadOnlyFile.h - Bytes of a file at given positions ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_READONLYFILE_H
#define FSDP_SUPPORT_READONLYFILE_H

#include <cstdint>
#include <string>

namespace fsdp {

/// A regular file that is open for reading. Reads may come from several
/// threads.
class ReadOnlyFile {
public:
  /// `what` names the file's purpose in errors ("the model file"), `advice`
  /// ends the message where it cannot be opened; it may be empty. Never waits
  /// for a writer and touches no device. Throws fsdp::Error: FileNotReadable,
  /// NotARegularFile.
  ReadOnlyFile(std::string path, std::string what,
               const std::string &advice = "");
  ~ReadOnlyFile();
  ReadOnlyFile(const ReadOnlyFile &) = delete;
  ReadOnlyFile &operator=(const ReadOnlyFile &) = delete;

  const std::string &path() const { return file; }
  /// Size in bytes when it was opened.
  uint64_t bytes() const { return size; }
  /// Size in bytes now; 0 if the system does not say.
  uint64_t currentBytes() const;
  /// The descriptor, for what only the system can do with it.
  int handle() const { return descriptor; }

  /// Fills `to` with `bytes` bytes from `offset` on. Throws fsdp::Error
  /// (FileNotReadable).
  void read(uint64_t offset, uint64_t bytes, void *to) const;

private:
  std::string file, what;
  uint64_t size = 0;
  int descriptor = -1;
};

/// The whole content of a regular file, `what` as above. Throws fsdp::Error:
/// FileNotReadable, NotARegularFile, and FileImplausible if it has more than
/// `most` bytes.
std::string readWholeFile(const std::string &path, const std::string &what,
                          uint64_t most);

} // namespace fsdp

#endif // FSDP_SUPPORT_READONLYFILE_H
