//===- Reference.h - What documents say of the config's keys ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_REFERENCE_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_REFERENCE_H

#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// A key that has a meaning, in Markdown.
struct ConfigKey {
  std::string path;    ///< "optimizer.groups.lr"
  std::string type;    ///< what may be written
  std::string initial; ///< what holds without it
  std::string text;
};

/// Keys that docs/Config.md has in one place.
struct ConfigChapter {
  std::string_view name; ///< "sharding"
  std::vector<ConfigKey> keys;
};
std::vector<ConfigChapter> listConfigKeys();

/// docs/Config.md anew: `document` with the tables that stand between its marks
/// as the keys are now. Throws std::runtime_error if a table has no place.
std::string renewReference(const std::string &document);
/// The same of docs/Combinations.md, whose tables are of what does not go
/// together.
std::string renewCombinations(const std::string &document);
/// The same of docs/ForeignConfigs.md, whose tables are of other tools' keys.
std::string renewForeign(const std::string &document);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_REFERENCE_H
