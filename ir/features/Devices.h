//===- Devices.h - What kinds of devices can do -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kind of device is a row of one table (Devices.cpp). Passes ask it for what
// they need, never for its name.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_FEATURES_DEVICES_H
#define FSDP_IR_FEATURES_DEVICES_H

#include <cstdint>
#include <span>
#include <string_view>

namespace fsdp {

/// Which table of this project bounds what kernels need beside their results.
enum class KernelTable { None, Host, Cuda };

/// Of a device that nobody knows, nothing is known.
struct Device {
  std::string_view name; ///< "cuda"
  KernelTable kernels = KernelTable::None;
  /// It is said in which order kernels sum.
  bool ordersSums = false;
  /// Collectives sum in a wider type than the one that travels; where they do
  /// not, ranks exchange parts and sum them (`fsdp-lower-wires`).
  bool sumsWider = false;
  /// Products of bf16 and f16 can be written in f32 (`aten.mm.dtype`).
  bool widensProducts = false;
  /// Products of eight bits want what they sum to be contiguous, and sizes that
  /// are multiples of 16.
  bool readsFloat8InOrder = false;
  /// Parts of a flat bucket that start at multiples of so many bytes move and
  /// compute much faster.
  int64_t alignment = 16;
};

/// GPUs of this compute capability, 10 * major + minor, and newer ones run
/// programs of kernels of our own; so do all processors that artifacts are for.
inline constexpr int kKernelCapability = 80;

/// GPUs of this one and newer ones multiply numbers of eight bits.
inline constexpr int kFloat8Capability = 89;
inline constexpr int kScaledBlockCapability = 100;

std::span<const Device> getDevices();
/// By what a module or an artifact was made for: "cuda:sm_90".
const Device &findDevice(std::string_view target);

} // namespace fsdp

#endif // FSDP_IR_FEATURES_DEVICES_H
