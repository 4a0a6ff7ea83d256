//===- Folder.cpp - A folder of checkpoints -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/checkpoint/Folder.h"

#include "runtime/checkpoint/Manifest.h"
#include "runtime/log/Log.h"
#include "support/AtomicFile.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

using namespace fsdp;
namespace fs = std::filesystem;

static constexpr std::string_view kPrefix = "step_";
static constexpr std::string_view kTemporary = ".tmp";

[[noreturn]] static void refuse(const std::string &path, const char *what,
                                const std::error_code &code) {
  throw Error(ErrorId::CheckpointNotWritten,
              "'" + path + "' cannot be " + what + ": " + code.message());
}

/// "step_100" -> 100
static std::optional<uint64_t> stepOf(std::string_view name) {
  if (!name.starts_with(kPrefix))
    return std::nullopt;
  name.remove_prefix(kPrefix.size());
  uint64_t step = 0;
  auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size())
    return std::nullopt;
  return step;
}

static bool isFile(const fs::path &path) {
  std::error_code code;
  return fs::is_regular_file(path, code);
}

std::string CheckpointFolder::nameOf(uint64_t step) const {
  return (fs::path(folder) / (std::string(kPrefix) + std::to_string(step)))
      .string();
}

std::string CheckpointFolder::temporaryOf(uint64_t step) const {
  return nameOf(step) + std::string(kTemporary);
}

std::vector<uint64_t> CheckpointFolder::steps() const {
  std::vector<uint64_t> found;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end;
       it.increment(code))
    if (auto step = stepOf(it->path().filename().string()))
      if (isFile(it->path() / kManifestName))
        found.push_back(*step);
  std::ranges::sort(found);
  return found;
}

void CheckpointFolder::checkWritable() const {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code)
    refuse(folder, "made", code);
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    refuse(folder, "written to", {errno, std::generic_category()});
}

std::vector<std::string> CheckpointFolder::findStale() const {
  std::vector<std::string> stale;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end;
       it.increment(code)) {
    std::string name = it->path().filename().string();
    if (name.ends_with(kTemporary) && stepOf(std::string_view(name).substr(
                                          0, name.size() - kTemporary.size())))
      stale.push_back(it->path().string());
  }
  return stale;
}

void CheckpointFolder::begin(uint64_t step) const {
  std::error_code code;
  for (const std::string &path : findStale())
    if (fs::remove_all(path, code); code)
      refuse(path, "removed", code);
  if (!fs::create_directory(temporaryOf(step), code))
    refuse(temporaryOf(step), "made", code);
}

void CheckpointFolder::commit(uint64_t step) const {
  syncFolder(temporaryOf(step));
  std::error_code code;
  fs::rename(temporaryOf(step), nameOf(step), code);
  if (code)
    refuse(nameOf(step), "put in its place", code);
  syncFolder(folder);
}

void CheckpointFolder::discard(uint64_t step) const noexcept {
  std::error_code code;
  fs::remove_all(temporaryOf(step), code);
}

void CheckpointFolder::keep(uint64_t count,
                            std::optional<uint64_t> best) const {
  auto warn = [](const std::string &path, const std::error_code &code) {
    log(LogLevel::warning,
        "'" + path + "' cannot be removed: " + code.message());
  };
  std::vector<uint64_t> all = steps();
  for (size_t i = 0; i + count < all.size(); ++i) {
    if (all[i] == best)
      continue;
    // From here on it is no checkpoint, wherever this run ends.
    std::error_code code;
    fs::rename(nameOf(all[i]), temporaryOf(all[i]), code);
    if (code)
      warn(nameOf(all[i]), code);
  }
  for (const std::string &path : findStale()) {
    std::error_code code;
    fs::remove_all(path, code);
    if (code)
      warn(path, code);
  }
}

void CheckpointFolder::nameBest(uint64_t step) const {
  fs::path link = fs::path(folder) / "best";
  fs::path made = fs::path(folder) / "best.tmp";
  std::error_code code;
  fs::remove(made, code);
  fs::create_directory_symlink(fs::path(nameOf(step)).filename(), made, code);
  if (!code)
    fs::rename(made, link, code);
  if (code)
    log(LogLevel::warning, "'" + link.string() +
                               "' cannot be made a link to the checkpoint of "
                               "step " +
                               std::to_string(step) + ": " + code.message());
}

void fsdp::syncFolder(const std::string &path) {
  int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool done = descriptor >= 0 && (fsync(descriptor) == 0 || errno == EINVAL);
  int reason = errno;
  if (descriptor >= 0)
    close(descriptor);
  if (!done)
    refuse(path, "synchronised with its disk",
           {reason, std::generic_category()});
}

/// Throws if files of it are not there or have other sizes.
static void checkFiles(const std::string &path) {
  for (const FileSeal &file : readManifest(path).files) {
    std::error_code code;
    fs::path where = fs::path(path) / file.name;
    uint64_t bytes = fs::file_size(where, code);
    if (code || bytes != file.bytes)
      throw Error(ErrorId::CheckpointDamaged,
                  "the checkpoint '" + path + "' needs '" + file.name +
                      "' of " + std::to_string(file.bytes) + " bytes, " +
                      (code ? "which cannot be read: " + code.message()
                            : "found " + std::to_string(bytes)) +
                      "; copy it again, or start from another checkpoint");
  }
}

std::optional<std::string> fsdp::findCheckpoint(const std::string &path) {
  if (isFile(fs::path(path) / kManifestName)) {
    checkFiles(path);
    return path;
  }
  CheckpointFolder folder(path);
  std::vector<uint64_t> steps = folder.steps();
  for (size_t i = steps.size(); i-- > 0;) {
    std::string each = folder.nameOf(steps[i]);
    try {
      checkFiles(each);
      return each;
    } catch (const Error &error) {
      if (error.id() == ErrorId::CheckpointVersion)
        throw;
      log(LogLevel::warning, "'" + each + "' is passed over: " + error.what());
    }
  }
  return std::nullopt;
}
