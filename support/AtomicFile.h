//===- AtomicFile.h - Write a file wholly or not at all ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_ATOMICFILE_H
#define FSDP_SUPPORT_ATOMICFILE_H

#include "support/OutputPath.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace fsdp {

/// A file that appears under its name only when it is complete: it grows as a
/// temporary file beside it and is renamed by `commit`. Without `commit`
/// nothing is left behind. A symbolic link is followed, its target replaced;
/// streams (OutputPath.h) are written into. All calls throw fsdp::Error
/// (FileNotWritable).
class AtomicFile {
public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  /// Appends.
  void write(std::string_view bytes);
  /// Puts `bytes` at `offset`, wherever `write` stands; gaps are zero.
  void writeAt(uint64_t offset, std::string_view bytes);
  /// Lets the disk begin with what was written, rather than wait for `commit`.
  /// Returns at once.
  void flushEarly();
  void commit();

private:
  [[noreturn]] void fail(const char *what) const;

  std::string path;
  OutputPath target;
  std::string temporary; ///< empty: the target is a stream
  int descriptor = -1;
};

void writeFileAtomically(const std::string &path, std::string_view bytes);

} // namespace fsdp

#endif // FSDP_SUPPORT_ATOMICFILE_H
