//===- Help.h - What --help prints ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_INPUT_HELP_H
#define FSDP_TOOLS_FSDPOPT_INPUT_HELP_H

#include <string>

namespace fsdp {

/// Usage, options and examples, for a person's first minute.
std::string getHelp();

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_INPUT_HELP_H
