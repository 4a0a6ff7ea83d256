//===- Archive.h - A .pt before LibTorch reads it ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch's reader trusts an archive: it runs the `__setstate__` of its
// classes, makes room for what its pickles state, and calls itself for each
// level of its code. What is looked at here is what it will see.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_TORCHSCRIPT_ARCHIVE_H
#define FSDP_IR_CAPTURE_TORCHSCRIPT_ARCHIVE_H

#include "support/ZipDirectory.h"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace fsdp::capture {

/// What loading an archive may need.
struct LoadNeeds {
  size_t stack = 64 << 20; ///< bytes of stack
  size_t codeBytes = 0;    ///< of its code
};

/// Checks the content of every entry against its checksum, pickles
/// (PickleScan.h), and code: none of it runs while it is loaded, and its
/// statements nest less than 1000 levels deep. Throws Error.
LoadNeeds checkTorchScriptArchive(const ZipDirectory &archive);

/// Throws Error (FileImplausible) if a statement of TorchScript's code `text`,
/// which is `what`, nests deeper than that.
void checkCodeDepth(std::string_view text, const std::string &what);

/// Runs `work` on a thread with a stack of so many bytes, and lets its
/// exception through. Throws Error (OutOfMemory) if there is no room for it.
void runWithStack(size_t bytes, const std::function<void()> &work);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_TORCHSCRIPT_ARCHIVE_H
