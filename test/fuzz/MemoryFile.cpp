//===- MemoryFile.cpp - Bytes that can be opened --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/fuzz/MemoryFile.h"

#include <sys/mman.h>
#include <unistd.h>

using namespace fsdp::fuzz;

MemoryFile::MemoryFile(std::string_view bytes)
    : descriptor(memfd_create("model", 0)),
      name("/proc/self/fd/" + std::to_string(descriptor)) {
  if (descriptor < 0 ||
      write(descriptor, bytes.data(), bytes.size()) != ssize_t(bytes.size()))
    __builtin_trap();
}

MemoryFile::~MemoryFile() { close(descriptor); }
