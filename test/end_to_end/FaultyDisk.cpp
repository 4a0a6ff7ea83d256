//===- FaultyDisk.cpp - A disk that fails, or a process that dies ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For LD_PRELOAD. Counts the calls that change what is below the folder
// FAULTY_DISK, and from call number FAULTY_DISK_FROM on, counted from 1, does
// what FAULTY_DISK_HOW says:
//   kill      the process is killed before the call
//   full      calls that need space fail with ENOSPC
//   readonly  all of them fail with EROFS
//   lost      all of them fail with EIO
//   nothing   they are done
// Each call is appended to the file FAULTY_DISK_LOG: its name and the path.
//
//===----------------------------------------------------------------------===//

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

/// The C library's own.
template <typename Function>
Function *real(Function *, const char *name) {
  return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

struct Settings {
  std::string folder, how, log;
  long from;

  Settings()
      : folder(get("FAULTY_DISK")), how(get("FAULTY_DISK_HOW")),
        log(get("FAULTY_DISK_LOG")),
        from(std::atol(get("FAULTY_DISK_FROM").c_str())) {}
  static std::string get(const char *name) {
    const char *value = std::getenv(name);
    return value ? value : "";
  }
};

const Settings &settings() {
  static const Settings all;
  return all;
}

std::string pathOf(int descriptor) {
  char path[4096];
  std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  ssize_t count = readlink(link.c_str(), path, sizeof(path));
  return {path, count > 0 ? static_cast<size_t>(count) : 0};
}

std::string absolute(int folder, const char *path) {
  if (path[0] == '/')
    return path;
  if (folder != AT_FDCWD)
    return pathOf(folder) + "/" + path;
  char here[4096];
  return std::string(getcwd(here, sizeof(here)) ? here : "") + "/" + path;
}

/// Whether the call is not to be made; errno then says why.
bool fails(const char *call, const std::string &path, bool needsSpace) {
  const Settings &all = settings();
  if (all.folder.empty() || !path.starts_with(all.folder))
    return false;
  static std::atomic<long> count = 0;
  bool isDue = ++count >= all.from && all.from > 0;
  if (!all.log.empty()) {
    std::string line = std::string(call) + " " + path + "\n";
    int log = real(&open, "open")(all.log.c_str(),
                                  O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (real(&write, "write")(log, line.data(), line.size()) < 0)
      std::abort();
    close(log);
  }
  if (!isDue)
    return false;
  if (all.how == "kill")
    raise(SIGKILL);
  errno = all.how == "full" ? ENOSPC : all.how == "readonly" ? EROFS : EIO;
  return all.how == "full" ? needsSpace : all.how != "nothing";
}

} // namespace

#define FAULTY_OPEN(NAME)                                                      \
  extern "C" int NAME(const char *path, int flags, ...) {                      \
    mode_t mode = 0;                                                           \
    if (flags & O_CREAT) {                                                     \
      va_list rest;                                                            \
      va_start(rest, flags);                                                   \
      mode = va_arg(rest, mode_t);                                             \
      va_end(rest);                                                            \
      if (fails("create", absolute(AT_FDCWD, path), true))                     \
        return -1;                                                             \
    }                                                                          \
    return real(&NAME, #NAME)(path, flags, mode);                              \
  }

FAULTY_OPEN(open)
FAULTY_OPEN(open64)

extern "C" ssize_t write(int descriptor, const void *data, size_t bytes) {
  if (fails("write", pathOf(descriptor), true))
    return -1;
  return real(&write, "write")(descriptor, data, bytes);
}

#define FAULTY_PWRITE(NAME)                                                    \
  extern "C" ssize_t NAME(int descriptor, const void *data, size_t bytes,      \
                          off_t offset) {                                      \
    if (fails("pwrite", pathOf(descriptor), true))                             \
      return -1;                                                               \
    return real(&NAME, #NAME)(descriptor, data, bytes, offset);                \
  }

FAULTY_PWRITE(pwrite)
FAULTY_PWRITE(pwrite64)

extern "C" int fsync(int descriptor) {
  if (fails("fsync", pathOf(descriptor), true))
    return -1;
  return real(&fsync, "fsync")(descriptor);
}

extern "C" int mkdir(const char *path, mode_t mode) {
  if (fails("mkdir", absolute(AT_FDCWD, path), true))
    return -1;
  return real(&mkdir, "mkdir")(path, mode);
}

extern "C" int rename(const char *from, const char *to) noexcept {
  if (fails("rename", absolute(AT_FDCWD, to), true))
    return -1;
  return real(&rename, "rename")(from, to);
}

extern "C" int unlink(const char *path) noexcept {
  if (fails("unlink", absolute(AT_FDCWD, path), false))
    return -1;
  return real(&unlink, "unlink")(path);
}

extern "C" int unlinkat(int folder, const char *path, int flags) noexcept {
  if (fails("unlink", absolute(folder, path), false))
    return -1;
  return real(&unlinkat, "unlinkat")(folder, path, flags);
}

extern "C" int rmdir(const char *path) noexcept {
  if (fails("unlink", absolute(AT_FDCWD, path), false))
    return -1;
  return real(&rmdir, "rmdir")(path);
}

extern "C" int remove(const char *path) noexcept {
  if (fails("unlink", absolute(AT_FDCWD, path), false))
    return -1;
  return real(&remove, "remove")(path);
}

/// access(2) says it of a folder on a read-only file system.
extern "C" int access(const char *path, int mode) noexcept {
  const Settings &all = settings();
  if (all.how == "readonly" && all.from == 1 && (mode & W_OK) &&
      absolute(AT_FDCWD, path).starts_with(all.folder)) {
    errno = EROFS;
    return -1;
  }
  return real(&access, "access")(path, mode);
}
