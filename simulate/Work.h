//===- Work.h - What an instruction computes and moves ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations and bytes that follow from operators and shapes alone, on any
// device.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SIMULATE_WORK_H
#define FSDP_SIMULATE_WORK_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace fsdp {

enum class WorkKind : uint8_t {
  none, ///< views, and all that only names memory
  matmul,
  attention, ///< one kernel for all of it
  convolution,
  elementwise, ///< each result from the operands' same elements
  reduction,   ///< sums, norms, softmax
  indexing,    ///< gathers and scatters of rows
  random,
  sort,
  optimizer,
  copy
};
inline constexpr size_t kWorkKinds = size_t(WorkKind::copy) + 1;

/// "matmul"
const char *getName(WorkKind kind);

/// `batch` products of m x k by k x n.
struct MatmulShape {
  int64_t batch = 0, m = 0, n = 0, k = 0;
};

struct Work {
  WorkKind kind = WorkKind::none;
  /// What it is measured as: aten's name without what says that it works in
  /// place, or the instruction's; lives as long as the plan.
  std::string_view op;
  plan::DType dtype = plan::DType::f32; ///< that it computes in
  double flops = 0;                     ///< a multiply-add is two
  double bytes = 0; ///< read and written, each once, where nothing is cached
  int kernels = 0;
  /// Of lists: a host takes one tensor after another.
  size_t tensors = 1;
  bool isBackward = false; ///< of attention
  double share = 1;        ///< of the rate that the device's attention has
  bool onHost = false;     ///< in the host's memory, beside a device's
  bool isFusible = false;  ///< a link of chains that compilers make one kernel
  MatmulShape matmul;      ///< of products
  /// Of products: the first operand's columns lie one behind the other.
  bool isTransposed = false;
};

/// Transfers, waits and frees are none.
Work estimateWork(const plan::PlanT &plan, const plan::ProgramT &program,
                  const plan::InstructionT &instruction);

} // namespace fsdp

#endif // FSDP_SIMULATE_WORK_H
