//===- Files.cpp - Files that patterns name -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/Files.h"

#include "support/Error.h"

#include <algorithm>
#include <filesystem>

#include <glob.h>

using namespace fsdp;

static std::vector<std::string> expand(const std::string &pattern) {
  std::error_code failure;
  if (std::filesystem::exists(pattern, failure))
    return {pattern};
  glob_t found{};
  int status = glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> paths(
      found.gl_pathv, found.gl_pathv + (status == 0 ? found.gl_pathc : 0));
  globfree(&found);
  if (paths.empty())
    throw Error(ErrorId::FileNotReadable,
                "no data file matches '" + pattern + "'");
  // glob's own order is that of the locale, which differs between machines.
  std::ranges::sort(paths);
  return paths;
}

std::vector<std::string>
fsdp::findFiles(const std::vector<std::string> &patterns) {
  std::vector<std::string> all;
  for (const std::string &pattern : patterns)
    for (std::string &path : expand(pattern))
      if (std::ranges::find(all, path) == all.end())
        all.push_back(std::move(path));
  return all;
}
