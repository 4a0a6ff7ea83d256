//===- FlightRuns.cpp - Folders of flight records -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/flights/FlightRuns.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <random>

using namespace fsdp;
namespace fs = std::filesystem;

static constexpr std::string_view kPattern = "dddddddd*dddddd-xxxxxx";
static constexpr std::string_view kPrefix = "rank_", kSuffix = ".json";

static bool isDigit(char c) { return c >= '0' && c <= '9'; }

std::string fsdp::makeRunName() {
  std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char time[32], number[16];
  std::strftime(time, sizeof(time), "%Y%m%dT%H%M%S", &utc);
  std::snprintf(number, sizeof(number), "-%06x",
                std::random_device()() & 0xFFFFFF);
  return std::string(time) + number;
}

bool fsdp::isRunName(std::string_view name) {
  return std::ranges::equal(name, kPattern, [](char c, char want) {
    switch (want) {
    case 'd':
      return isDigit(c);
    case 'x':
      return isDigit(c) || (c >= 'a' && c <= 'f');
    case '*':
      return c == 'T';
    default:
      return c == want;
    }
  });
}

std::string fsdp::recordName(int rank) {
  return std::string(kPrefix) + std::to_string(rank) + std::string(kSuffix);
}

bool fsdp::isRecordName(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) ||
      name.size() <= kPrefix.size() + kSuffix.size())
    return false;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  return std::ranges::all_of(name, isDigit);
}

std::vector<std::string> fsdp::listRuns(const std::string &folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator each(folder, code), end; !code && each != end;
       each.increment(code)) {
    std::error_code ignored;
    std::string name = each->path().filename().string();
    if (isRunName(name) &&
        each->symlink_status(ignored).type() == fs::file_type::directory)
      names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

void fsdp::removeOldRuns(const std::string &folder, size_t kept,
                         const std::string &own) {
  std::vector<std::string> names = listRuns(folder);
  size_t count = names.size() - std::min(names.size(), kept);
  for (size_t i = 0; i < count; ++i) {
    if (names[i] == own)
      continue;
    fs::path path = fs::path(folder) / names[i];
    std::vector<fs::path> files;
    std::error_code code;
    for (fs::directory_iterator each(path, code), end; !code && each != end;
         each.increment(code))
      if (isRecordName(each->path().filename().string()))
        files.push_back(each->path());
    for (const fs::path &file : files)
      fs::remove(file, code);
    // Only if nothing else is in it.
    fs::remove(path, code);
  }
}
