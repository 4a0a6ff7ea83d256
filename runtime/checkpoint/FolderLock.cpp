//===- FolderLock.cpp - One writer a folder -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/checkpoint/FolderLock.h"

#include "runtime/log/Log.h"
#include "support/Error.h"

#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fsdp;
using Clock = std::chrono::steady_clock;

static constexpr const char *kName = ".fsdp-run.lock";
/// Whoever starts a run again may do so while the last one's process still
/// ends.
static constexpr std::chrono::milliseconds kPatience(3000), kPause(50);

/// A lock of the open file rather than of the process: a second one of the same
/// process is refused, too, and closing another descriptor does not end it.
static int lockFile(int descriptor) {
#ifdef F_OFD_SETLK
  struct flock whole{};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return fcntl(descriptor, F_OFD_SETLK, &whole) == 0 ? 0 : errno;
#else
  (void)descriptor;
  return ENOSYS;
#endif
}

static std::string describeThisRun() {
  char host[256] = {}, time[64] = {};
  gethostname(host, sizeof(host) - 1);
  std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(time, sizeof(time), "%Y-%m-%d %H:%M:%S UTC", &utc);
  return "process " + std::to_string(getpid()) + " on " + host + ", since " +
         time + "\n";
}

static std::string readOwner(int descriptor) {
  char text[512] = {};
  ssize_t count = pread(descriptor, text, sizeof(text) - 1, 0);
  std::string owner(text, count > 0 ? static_cast<size_t>(count) : 0);
  owner = owner.substr(0, owner.find('\n'));
  return owner.empty() ? "a process that has not said which" : owner;
}

/// Whether the name still leads to the open file: who ends removes it.
static bool isNamed(int descriptor, const std::string &path) {
  struct stat opened, named;
  return fstat(descriptor, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

FolderLock::FolderLock(const std::string &folder)
    : path((std::filesystem::path(folder) / kName).string()) {
  auto end = Clock::now() + kPatience;
  bool isTold = false;
  for (;;) {
    descriptor =
        open(path.c_str(),
             O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (descriptor < 0)
      throw Error(
          ErrorId::CheckpointNotWritten,
          "'" + path + "' cannot be opened: " +
              std::error_code(errno, std::generic_category()).message());
    int reason = lockFile(descriptor);
    if (reason == 0) {
      if (isNamed(descriptor, path))
        break;
    } else if (reason != EAGAIN && reason != EACCES) {
      // ENOLCK, EINVAL, ENOSYS, EOPNOTSUPP: by kind of file system.
      log(LogLevel::warning,
          "'" + folder + "' is on a file system that gives no locks (" +
              std::error_code(reason, std::generic_category()).message() +
              "): see to it that no other run saves there");
      close(descriptor);
      descriptor = -1;
      unlink(path.c_str());
      return;
    } else if (Clock::now() >= end) {
      std::string owner = readOwner(descriptor);
      close(descriptor);
      descriptor = -1;
      throw Error(ErrorId::CheckpointsLocked,
                  "--save: another run saves checkpoints to '" + folder +
                      "': " + owner + "; end it, or save to another folder");
    }
    if (reason != 0 && !isTold) {
      isTold = true;
      log(LogLevel::info, "'" + folder + "' is locked by " +
                              readOwner(descriptor) + "; waiting " +
                              std::to_string(kPatience.count() / 1000) +
                              " s for it to end");
    }
    close(descriptor);
    if (reason != 0)
      std::this_thread::sleep_for(kPause);
  }
  // Only for those who are refused: a full disk is no reason not to go on.
  std::string text = describeThisRun();
  if (ftruncate(descriptor, 0) == 0)
    (void)!pwrite(descriptor, text.data(), text.size(), 0);
}

FolderLock::~FolderLock() {
  if (descriptor < 0)
    return;
  // Still locked: nobody else removes a name that has become another's.
  unlink(path.c_str());
  close(descriptor);
}
