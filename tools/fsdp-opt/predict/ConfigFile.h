//===- ConfigFile.h - A config, and what the command says beside it -*- C++
//-*-//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_PREDICT_CONFIGFILE_H
#define FSDP_TOOLS_FSDPOPT_PREDICT_CONFIGFILE_H

#include "tools/fsdp-opt/config/Config.h"
#include "tools/fsdp-opt/input/CommandLine.h"

namespace fsdp {

/// The config at `path`, with --cluster, which also says the device where the
/// file does not. Throws fsdp::Error as parseConfig and Cluster::load.
LoadedConfig loadConfig(const CommandLine &line, const std::string &path,
                        std::optional<int64_t> world);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_PREDICT_CONFIGFILE_H
