//===- Kernels.h - Programs of kernels --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel's program is data: what one computes for each element, over rows of
// columns. It reads and writes nothing but its operands, within their extents,
// whoever wrote it: what was checked here can be run.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_KERNELS_H
#define FSDP_PLAN_KERNELS_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// A plan holds it as its number.
enum class KernelOpKind : uint8_t {
#define FSDP_KERNEL_OP(name, ...) name,
#include "plan/KernelOps.def"
};

enum class KernelType : uint8_t { f32, i64, boolean };

struct KernelOpFacts {
  KernelOpKind kind;
  std::string_view name;
  std::string_view arguments; ///< letters of KernelOps.def
  char result;
  std::string_view integers; ///< names with a space between
};
std::span<const KernelOpFacts> getKernelOps();
const KernelOpFacts &getFacts(KernelOpKind kind);

inline KernelOpKind kindOf(const plan::KernelOpT &op) {
  return static_cast<KernelOpKind>(op.kind);
}

/// What an operation gives.
struct KernelValue {
  KernelType type;
  uint64_t columns;
};

/// Partial results of a reduction over columns, and parts of one over rows.
inline constexpr uint64_t kKernelLanes = 64;
inline constexpr int64_t kKernelParts = 16;

/// Parts of one over rows on a GPU, at most: one for each block of threads.
inline constexpr int64_t kMostPartialRows = 264;

/// What programs may have at most.
inline constexpr size_t kMaxKernelOps = 4096, kMaxKernelOperands = 256;

/// What does not hold of a program, beginning with a verb; none: it is sound.
std::optional<std::string> checkKernel(const plan::KernelProgramT &program);

// Of programs that are sound.

/// One for each operation.
std::vector<KernelValue> valuesOf(const plan::KernelProgramT &program);
/// Numbers of the operands that are written, or of those that are read.
std::vector<size_t> operandsOf(const plan::KernelProgramT &program,
                               bool written);
/// Number of rows.
int64_t rowsOf(const plan::KernelProgramT &program);
/// The most columns that an operand or operation has.
uint64_t columnsOf(const plan::KernelProgramT &program);
/// One row whose columns can be computed in any pieces: those that have all of
/// them depend on their own column alone.
bool isFlat(const plan::KernelProgramT &program);
/// Whether an operand takes a sum over rows.
bool takesRowSum(const plan::KernelProgramT &program, size_t operand);
/// Whether the operand that is written may lie where the one that is read does:
/// each element is at the same address in both, and is read for no other
/// column.
bool mayOverwrite(const plan::KernelProgramT &program, size_t written,
                  size_t read);
/// Elements from an operand's first to behind its last one.
uint64_t extentOf(const plan::KernelProgramT &program, size_t operand);

/// "%3 = mul %1, %2", a line for each operation and each operand that is
/// written.
std::string toText(const plan::KernelProgramT &program);

} // namespace fsdp

#endif // FSDP_PLAN_KERNELS_H
