//===- Abi.h - What is used of NCCL's interface -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types and constants of nccl.h, which NCCL never changes, only adds to. Stated
// here because the library is loaded at run time, and builds for CPUs have no
// nccl.h; AbiCheck.cpp compares them with it where there is one.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_NCCL_ABI_H
#define FSDP_RUNTIME_COMM_NCCL_ABI_H

#include "runtime/device/Streams.h"

#include <climits>
#include <cstddef>

struct ncclComm;
struct ncclWindow_vidmem;

namespace fsdp::nccl {

using Comm = ncclComm *;
using Window = ncclWindow_vidmem *;

struct UniqueId {
  char internal[128];
};

enum class Result : int {
  success = 0,
  unhandledCudaError = 1,
  systemError = 2,
  internalError = 3,
  invalidArgument = 4,
  invalidUsage = 5,
  remoteError = 6,
  inProgress = 7
};

enum class DataType : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9
};

/// Built-in reductions; those that ncclRedOpCreatePreMulSum makes are greater.
enum class RedOp : int { sum = 0, max = 2, avg = 4 };

enum class ScalarResidence : int { device = 0, hostImmediate = 1 };

inline constexpr int kWindowCollSymmetric = 1;
inline constexpr size_t kWindowAlignment = 4096;
/// Calls between ncclGroupStart and ncclGroupEnd.
inline constexpr size_t kMostGrouped = 2048;

/// NCCL_VERSION(major, minor, patch) of releases from 2.9 on.
constexpr int version(int major, int minor, int patch) {
  return major * 10000 + minor * 100 + patch;
}

/// ncclConfig_t as of NCCL 2.18. NCCL reads as much of it as it knows, and
/// takes its defaults for what it adds behind it.
struct Config {
  static constexpr int undefined = INT_MIN;

  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = nccl::version(2, 18, 1);
  int blocking = undefined;
  int cgaClusterSize = undefined;
  int minCTAs = undefined;
  int maxCTAs = undefined;
  const char *netName = nullptr;
  int splitShare = undefined;
};

} // namespace fsdp::nccl

#endif // FSDP_RUNTIME_COMM_NCCL_ABI_H
