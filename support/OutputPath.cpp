//===- OutputPath.cpp - Where a file that is to be written lies -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/OutputPath.h"

#include "support/Error.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <sys/stat.h>

using namespace fsdp;
namespace fs = std::filesystem;

/// As many as Linux follows.
static constexpr int kMostLinks = 40;

static bool isStream(const std::string &path) {
  for (const char *name :
       {"/dev/null", "/dev/full", "/dev/stdout", "/dev/stderr"})
    if (path == name)
      return true;
  return path.starts_with("/dev/fd/");
}

OutputPath fsdp::findOutput(const std::string &path) {
  auto refuse = [&](const std::string &reason) {
    throw Error(ErrorId::FileNotWritable,
                "'" + path + "' cannot be written: " + reason);
  };
  std::string at = path;
  for (int links = 0; !isStream(at); ++links) {
    struct stat status;
    // What is not there, or cannot be asked for, fails where it is made.
    if (lstat(at.c_str(), &status) != 0)
      return {at};
    if (S_ISLNK(status.st_mode)) {
      if (links == kMostLinks)
        refuse(std::error_code(ELOOP, std::generic_category()).message());
      std::error_code code;
      fs::path target = fs::read_symlink(at, code);
      if (code)
        refuse(code.message());
      at = (fs::path(at).parent_path() / target).string();
      continue;
    }
    if (S_ISREG(status.st_mode))
      return {at};
    refuse(std::string("it is ") +
           (S_ISDIR(status.st_mode)    ? "a folder"
            : S_ISFIFO(status.st_mode) ? "a pipe"
            : S_ISSOCK(status.st_mode) ? "a socket"
                                       : "a device") +
           "; expected a file, or a name for a new one");
  }
  return {at, /*isStream=*/true};
}
