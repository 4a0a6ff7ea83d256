//===- CodeCache.cpp - Code that was made before --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/CodeCache.h"

#include "support/AtomicFile.h"
#include "support/Error.h"
#include "support/Hash.h"

#include <cstdlib>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fsdp;

// A file is an image, its request, and an end that is as long as this: the
// image's bytes in hex, and the hash of all before the end.
static constexpr size_t kEndBytes = 16 + 32;
static constexpr uint64_t kMostBytes = 64 << 20;

/// Whether the folder is the user's own, and lets others do none of `denied`.
static bool isOwn(const std::string &folder, mode_t denied) {
  struct stat status{};
  return lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == geteuid() && (status.st_mode & denied) == 0;
}

CodeCache::CodeCache() {
  const char *cache = std::getenv("XDG_CACHE_HOME");
  std::string parent;
  if (cache && *cache == '/') {
    parent = cache;
  } else {
    const char *home = std::getenv("HOME");
    if (!home || *home != '/')
      return;
    parent = std::string(home) + "/.cache";
  }
  std::string own = parent + "/fsdp-opt", kernels = own + "/kernels";
  // What is there already is looked at below.
  for (const std::string &made : {parent, own, kernels})
    (void)mkdir(made.c_str(), 0700);
  if (isOwn(own, 0022) && isOwn(kernels, 0077))
    folder = kernels;
}

std::string CodeCache::pathOf(std::string_view request) const {
  return folder + "/" + hash128(request) + ".code";
}

/// Bytes of the image that the file's bytes begin with; none: they are not
/// that of `request`.
static std::optional<uint64_t> checkFile(std::string_view file,
                                         std::string_view request) {
  std::string_view before = file.substr(0, file.size() - kEndBytes);
  std::string_view end = file.substr(before.size());
  if (request.size() > before.size() || !before.ends_with(request))
    return std::nullopt;
  uint64_t bytes = before.size() - request.size();
  if (bytes == 0 || end != toHex(bytes) + hash128(before))
    return std::nullopt;
  return bytes;
}

/// Of a file of the user's that may be one of ours; 0: it is none.
static uint64_t bytesOf(int descriptor) {
  struct stat status{};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != geteuid())
    return 0;
  auto bytes = uint64_t(status.st_size);
  return bytes > kEndBytes && bytes <= kMostBytes ? bytes : 0;
}

static std::optional<std::string> readText(int descriptor, uint64_t bytes,
                                           std::string_view request) {
  std::string file(bytes, '\0');
  if (pread(descriptor, file.data(), bytes, 0) != ssize_t(bytes))
    return std::nullopt;
  std::optional<uint64_t> length = checkFile(file, request);
  if (!length)
    return std::nullopt;
  file.resize(*length);
  return file;
}

static std::optional<CodeImage> readImage(int descriptor, uint64_t bytes,
                                          std::string_view request) {
  // Looked at where it is mapped: what is run is what was compared.
  if (std::optional<CodeImage> image = CodeImage::map(descriptor, bytes)) {
    if (checkFile(image->bytes(), request))
      return image;
    return std::nullopt;
  }
  // A file system that lets nobody execute its files.
  std::optional<std::string> file = readText(descriptor, bytes, request);
  if (!file)
    return std::nullopt;
  return CodeImage(*file);
}

/// What `read` makes of the request's file; none if there is no such file.
template <typename Read>
auto CodeCache::open(std::string_view request, Read read) const {
  using Result = decltype(read(0, uint64_t(0), request));
  struct File {
    ~File() {
      if (descriptor >= 0)
        close(descriptor);
    }
    int descriptor = -1;
  } file;
  if (!folder.empty())
    file.descriptor = ::open(pathOf(request).c_str(),
                             O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor < 0)
    return Result();
  uint64_t bytes = bytesOf(file.descriptor);
  return bytes ? read(file.descriptor, bytes, request) : Result();
}

std::optional<CodeImage> CodeCache::find(std::string_view request) const {
  return open(request, readImage);
}

std::optional<std::string> CodeCache::findText(std::string_view request) const {
  return open(request, readText);
}

void CodeCache::keep(std::string_view request, std::string_view image) const {
  if (folder.empty())
    return;
  std::string file = std::string(image) + std::string(request);
  file += toHex(image.size()) + hash128(file);
  try {
    writeFileAtomically(pathOf(request), file);
  } catch (const Error &) {
    // It is made again the next time.
  }
}
