//===- Target.h - What code is made for -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_KERNELS_EMIT_TARGET_H
#define FSDP_KERNELS_EMIT_TARGET_H

#include <memory>
#include <string>
#include <string_view>

namespace llvm {
class TargetMachine;
}

namespace fsdp {

struct EmitTarget {
  /// "x86-64-v3", "x86-64-v4", "aarch64", "sm_80", "sm_90", "sm_100"; GPUs'
  /// with
  /// "/exact" behind it, too.
  std::string_view name;
  std::string_view triple, processor, features;
  unsigned lanes; ///< f32 numbers of a vector register, or the most of a thread
  bool masksMemory; ///< loads and stores of some of a vector's elements
  /// Converts integers of 64 bits to f32 by way of f64, which rounds twice.
  bool roundsTwice;
  bool isGpu = false;
  /// A GPU's: computes the processors' bits, where no sum's order differs; else
  /// its own approximations of exp and of quotients.
  bool isExact = false;
};

/// Null: there is no target of that name.
const EmitTarget *findTarget(std::string_view name);

/// Rounds each operation on its own. Any thread may call it.
std::unique_ptr<llvm::TargetMachine> makeMachine(const EmitTarget &target);

} // namespace fsdp

#endif // FSDP_KERNELS_EMIT_TARGET_H
