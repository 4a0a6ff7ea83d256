//===- BuiltinClusters.h - The files of simulate/clusters -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_BUILTINCLUSTERS_H
#define FSDP_SIMULATE_BUILTINCLUSTERS_H

#include <span>
#include <string_view>

namespace fsdp {

struct BuiltinCluster {
  std::string_view name, text;
};

/// By name; CMake writes them into BuiltinClusters.cpp.
std::span<const BuiltinCluster> getBuiltinClusters();

} // namespace fsdp

#endif // FSDP_SIMULATE_BUILTINCLUSTERS_H
