//===- OutputPath.h - Where a file that is to be written lies ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_OUTPUTPATH_H
#define FSDP_SUPPORT_OUTPUTPATH_H

#include <string>

namespace fsdp {

struct OutputPath {
  std::string path; ///< behind all symbolic links
  /// Whether it is written into rather than replaced: /dev/null, /dev/full, and
  /// what this process has open already (/dev/stdout, /dev/stderr, /dev/fd/N).
  bool isStream = false;
};

/// What a path that somebody named for an output means. A file that is not
/// there yet is fine. Throws fsdp::Error (FileNotWritable) if it is a folder, a
/// device, a pipe or a socket, which would be replaced, or block whoever opens
/// them.
OutputPath findOutput(const std::string &path);

} // namespace fsdp

#endif // FSDP_SUPPORT_OUTPUTPATH_H
