//===- ArchiveFuzzer.cpp - Damaged model files ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The input is a whole model file.
//
//===----------------------------------------------------------------------===//

#include "support/Error.h"
#include "support/ZipDirectory.h"
#include "test/fuzz/Harness.h"

using namespace fsdp;

/// Every entry's bytes lie in the file.
static void readEntries(const std::string &path) {
  try {
    ZipDirectory archive = ZipDirectory::read(path);
    archive.directoryHash();
    for (const ZipEntry &entry : archive.entries())
      if (entry.stored)
        archive.readStored(entry.name);
  } catch (const Error &) {
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::MemoryFile file({reinterpret_cast<const char *>(data), size});
  readEntries(file.path());
  fuzz::captureArchive(file.path());
  return 0;
}
