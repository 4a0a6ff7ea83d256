//===- Groups.h - What groups of ranks are called ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_GROUPS_H
#define FSDP_PLAN_GROUPS_H

#include <string>
#include <string_view>

namespace fsdp {

/// The group called `name` by programs as configs and reports call it: those of
/// data parallelism have a prefix, "dp_shard", others none, "tp".
inline std::string getGroupLabel(std::string_view name) {
  return (name == "tp" || name == "cp" ? "" : "dp_") + std::string(name);
}

} // namespace fsdp

#endif // FSDP_PLAN_GROUPS_H
