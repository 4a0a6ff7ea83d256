//===- Reduction.h - Reductions in NCCL's terms -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_NCCL_REDUCTION_H
#define FSDP_RUNTIME_COMM_NCCL_REDUCTION_H

#include "runtime/comm/Reduce.h"
#include "runtime/comm/nccl/Abi.h"

#include <array>
#include <cstddef>

namespace fsdp {

/// What NCCL takes an element for: a complex number is two of its parts.
struct NcclElement {
  nccl::DataType type;
  size_t parts;
};

/// How NCCL reduces elements of a type. PyTorch's FSDP2 divides in the same
/// places (_fsdp_collectives.py: foreach_reduce, PREMUL_SUM, AVG).
struct NcclReduction {
  NcclElement element;
  nccl::RedOp op;
  /// If not 1, `op` is a sum of operands that NCCL multiplies by 1 / pre first.
  double pre = 1;
  /// By what the result is divided behind NCCL's call; 1: it is not.
  double post = 1;
};

/// Throws fsdp::Error (ReductionUnsupported) for what has no meaning
/// (checkReduction), types that NCCL does not know (16-bit integers), and
/// divided sums of integers.
NcclReduction toNcclReduction(plan::DType dtype, const Combination &combination,
                              int ranks);

/// The first bytes of `factor` as an element of `type`, a floating-point one.
std::array<std::byte, 8> encodeScalar(double factor, nccl::DataType type);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_NCCL_REDUCTION_H
