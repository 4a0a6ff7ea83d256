//===- Toml.h - TOML as YAML ------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_YAML_TOML_H
#define FSDP_SUPPORT_YAML_TOML_H

#include <string>

namespace fsdp {

/// `text` as YAML with the same keys and values, each on its own line, so that
/// messages about it say where it stands. `file` is what errors call it. A
/// table that goes on behind another one has no such place and is refused, as
/// is what is no TOML: throws fsdp::Error (ConfigNotReadable).
std::string convertToml(const std::string &text, const std::string &file);

} // namespace fsdp

#endif // FSDP_SUPPORT_YAML_TOML_H
