//===- OptionChecks.h - Options that have no effect -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_INPUT_OPTIONCHECKS_H
#define FSDP_TOOLS_FSDPOPT_INPUT_OPTIONCHECKS_H

#include "tools/fsdp-opt/input/CommandLine.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// A row of Options.def.
struct OptionRow {
  std::string_view name, value;
  Tasks tasks;
  std::string_view help;
};
std::span<const OptionRow> listOptions();

/// No option is ignored without a word. `given`: names of all options that
/// stand on the command line, MLIR's and passes among them, in their order.
/// Throws fsdp::Error (BadUsage).
void checkOptions(const CommandLine &line,
                  const std::vector<std::string> &given);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_INPUT_OPTIONCHECKS_H
