//===- Combinations.h - Features that a config asks for ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_COMBINATIONS_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_COMBINATIONS_H

#include "ir/features/Relations.h"
#include "tools/fsdp-opt/config/Config.h"

namespace fsdp {

/// Whether `config` asks for it.
Asked ask(const Config &config, Feature feature);

/// Whether the file has the key, "fsdp_config.prefetch".
bool says(const Config &config, std::string_view key);

/// Whether the parser would take `changed`, which was made of a config that it
/// took: no relation is broken that held.
bool allows(const Config &config, const Config &changed);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_COMBINATIONS_H
