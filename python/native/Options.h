//===- Options.h - Options of a session, from Python ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PYTHON_NATIVE_OPTIONS_H
#define FSDP_PYTHON_NATIVE_OPTIONS_H

#include "runtime/launch/Launch.h"

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

namespace fsdp {

/// Names of what `readOptions` takes, in the order of RunOptions.def.
std::vector<std::string> listSessionOptions();

/// None, and a name that is absent, leaves the runtime's default. Throws
/// fsdp::Error (BadUsage) for a value of another type or out of bounds,
/// nanobind::type_error for a name that there is not.
LaunchOptions readOptions(const std::string &artifact,
                          const nanobind::dict &options);

} // namespace fsdp

#endif // FSDP_PYTHON_NATIVE_OPTIONS_H
