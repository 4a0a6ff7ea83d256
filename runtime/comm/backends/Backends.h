//===- Backends.h - Back ends by name ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_BACKENDS_BACKENDS_H
#define FSDP_RUNTIME_COMM_BACKENDS_BACKENDS_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/FabricOptions.h"

#include <memory>
#include <string_view>
#include <vector>

namespace fsdp {

struct Backend {
  std::string_view name;
  std::string_view summary;
  /// Whether all ranks are threads of one process.
  bool inProcess;
  /// What the process's environment must say, which others may read from then
  /// on: called before there are other threads. Null: nothing.
  void (*prepare)();
  /// Connects the ranks that live in this process and returns their fabrics:
  /// all of them for a back end that is `inProcess`, else one. Each fabric is
  /// used by one thread.
  std::vector<std::unique_ptr<Fabric>> (*connect)(const FabricOptions &options);
};

/// All back ends, in the order in which errors and --help list them.
const std::vector<Backend> &backends();

/// Throws fsdp::Error (UnknownBackend), which lists the known names.
const Backend &findBackend(std::string_view name);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_BACKENDS_BACKENDS_H
