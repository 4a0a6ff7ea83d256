//===- Library.h - NCCL, loaded when it is needed ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_NCCL_LIBRARY_H
#define FSDP_RUNTIME_COMM_NCCL_LIBRARY_H

#include "runtime/comm/nccl/Abi.h"

#include <memory>
#include <string>

namespace fsdp {

/// The functions of one libnccl.so.2, so that the same binary runs with and
/// without it. Members are named as nccl.h names them, without "nccl".
struct NcclLibrary {
  /// Loads the library that FSDP_NCCL_LIBRARY names, else libnccl.so.2 as the
  /// system finds it: where LibTorch for CUDA is loaded, the one that came with
  /// it. Throws fsdp::Error (NcclUnusable) if there is none, or if it is older
  /// than `kOldest`. It stays loaded.
  static std::shared_ptr<const NcclLibrary> load();

  /// The first release with the configuration that is asked for.
  static constexpr int kOldest = nccl::version(2, 18, 1);
  /// From here on, work of several communicators can be made to start in the
  /// order of the calls (NCCL_LAUNCH_ORDER_IMPLICIT).
  static constexpr int kLaunchOrder = nccl::version(2, 26, 2);
  /// From here on, memory can be registered for all collectives.
  static constexpr int kWindows = nccl::version(2, 27, 3);

  /// "2.28.9"
  std::string versionText() const;
  /// "unhandled cuda error: NCCL's own last message, if there is one".
  std::string describe(nccl::Result result, nccl::Comm comm) const;
  /// Whether this release has windows.
  bool hasWindows() const {
    return versionCode >= kWindows && MemAlloc && MemFree &&
           CommWindowRegister && CommWindowDeregister;
  }

  std::string path; ///< as it was asked for
  int versionCode = 0;

#define FSDP_NCCL_FUNCTION(name, result, ...)                                  \
  result (*name)(__VA_ARGS__) = nullptr;
#include "runtime/comm/nccl/Functions.def"
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_NCCL_LIBRARY_H
