//===- Options.h - The command line of fsdp-run -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPRUN_OPTIONS_H
#define FSDP_TOOLS_FSDPRUN_OPTIONS_H

#include "runtime/calibrate/Calibrate.h"
#include "runtime/train/RunOptions.h"

#include <optional>

namespace fsdp {

struct RunRequest : RunOptions {
  bool isDryRun = false;
  std::optional<CalibrateOptions> calibrate; ///< instead of all else
  std::string compareRecords; ///< a folder; not empty: instead of all else
};

/// Empty if --help or --version was asked for, which has then been printed.
/// Sets the log level. Throws fsdp::Error (BadUsage, RuntimeUnsupported).
std::optional<RunRequest> parseOptions(int argc, const char *const *argv);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPRUN_OPTIONS_H
