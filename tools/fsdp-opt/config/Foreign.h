//===- Foreign.h - Keys of other tools that have a meaning ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys of Axolotl, Accelerate and transformers whose meaning a config can have
// under another name: a value of theirs is read as one of that key. Those
// without a meaning are in ForeignKeys.h.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGN_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGN_H

#include "tools/fsdp-opt/config/Reading.h"

#include <span>
#include <string_view>

namespace fsdp {

struct Rename {
  std::string_view section; ///< "" for the top level
  std::string_view name;
  /// "optimizer.lr"; empty: nothing of this project's.
  std::string_view becomes;
  /// Where it takes more than a name.
  void (*read)(const Value &) = nullptr;
  /// What documents say in place of `becomes`.
  std::string_view text = {};
  /// `read` says what the key is taken as.
  bool reports = false;
  bool sayNothingIfOff = false;
};

std::span<const Rename> getRenames();
/// `name` with or without Accelerate's prefix; null if there is none.
const Rename *findRename(std::string_view section, std::string_view own,
                         std::string_view written);

/// `optimizer: adamw_torch`, as transformers has it.
void readOptimizerWord(const Value &value, OptimizerConfig &optimizer);

/// What FSDP1's sharding_strategy, if it is given, makes of the mesh, whose
/// dp_shard is `shard` if it is given.
void applyStrategy(Reading &reading, std::optional<int64_t> &shard);

/// Lets `fsdp: auto_wrap` choose the policy, unless fsdp_config does.
void applyAutoWrap(Reading &reading);

/// Puts what other keys say of the schedule beside the scheduler.
void mergeSchedule(Reading &reading);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGN_H
