//===- AtomicFile.cpp - Write a file wholly or not at all -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/AtomicFile.h"

#include "support/Error.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

using namespace fsdp;

AtomicFile::AtomicFile(std::string path)
    : path(std::move(path)), target(findOutput(this->path)) {
  if (target.isStream) {
    descriptor = open(target.path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  } else {
    temporary = target.path + ".partial." + std::to_string(getpid());
    // Not through a link that somebody else put there.
    descriptor =
        open(temporary.c_str(),
             O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  }
  if (descriptor < 0)
    fail("created");
}

AtomicFile::~AtomicFile() {
  if (descriptor < 0)
    return;
  close(descriptor);
  if (!target.isStream)
    unlink(temporary.c_str());
}

void AtomicFile::fail(const char *what) const {
  throw Error(ErrorId::FileNotWritable,
              "'" + path + "' cannot be " + what + ": " +
                  std::error_code(errno, std::generic_category()).message());
}

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      fail("written");
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

void AtomicFile::writeAt(uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t count = pwrite(descriptor, bytes.data(), bytes.size(),
                           static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      fail("written");
    offset += static_cast<uint64_t>(count);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

void AtomicFile::flushEarly() {
#ifdef SYNC_FILE_RANGE_WRITE
  // A hint: what fails here fails again in `commit`, which says so.
  (void)sync_file_range(descriptor, /*offset=*/0, /*nbytes=*/0,
                        SYNC_FILE_RANGE_WRITE);
#endif
}

void AtomicFile::commit() {
  // Some file systems report a full disk only now.
  if (fsync(descriptor) != 0 && errno != EINVAL)
    fail("written");
  if (!target.isStream && rename(temporary.c_str(), target.path.c_str()) != 0)
    fail("put in its place");
  close(descriptor);
  descriptor = -1;
}

void fsdp::writeFileAtomically(const std::string &path,
                               std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}
