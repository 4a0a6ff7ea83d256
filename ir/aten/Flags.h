//===- Flags.h - Facts of an ATen operator ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_ATEN_FLAGS_H
#define FSDP_IR_ATEN_FLAGS_H

#include <cstdint>

namespace fsdp::aten {

/// Facts of a row of the table, to be combined with `|`.
enum Flags : uint32_t {
  // LibTorch's own.
  Cpu = 1 << 0,        // a kernel of its own for the CPU
  Composite = 1 << 1,  // a kernel in terms of others, below autograd
  Decomposes = 1 << 2, // a kernel in terms of others, seen by autograd
  DataDependentOutput = 1 << 3,
  DynamicOutputShape = 1 << 4,
  InplaceView = 1 << 5,
  NondeterministicBitwise = 1 << 6,
  NondeterministicSeeded = 1 << 7,
  Pointwise = 1 << 8,
  ViewCopy = 1 << 9,

  // Those of Facts.def. What LibTorch's CPU kernels allocate beside results; an
  // operator with none of these that is not pointwise is taken to hold as much
  // again as its operands and results.
  ScratchNone = 1 << 10,     // writes its results straight away
  ScratchPromotes = 1 << 11, // converts operands to the widest one's type
  ScratchWidens = 1 << 12,   // converts operands and results of half types and
                             // eight bits to single ones, and back, where the
                             // processor does not multiply them
  ScratchStrided = 1 << 13,  // makes its strided operands contiguous first
  ScratchReorders = 1 << 14, // copies operands and results into the layout of a
                             // library, both ways, and may keep partial sums
                             // for each thread

  // What refuses operands of several floating-point dtypes, and the dtype that
  // mixed precision gives them.
  MixedParam = 1 << 15,  // param_dtype
  MixedWidest = 1 << 16, // a loss or a comparison, which must not lose digits
  MixedSelf = 1 << 17,   // its first operand's: it writes into a copy of that

  // Lists of torch.autocast on the CPU, which are in no header of LibTorch. Its
  // dispatcher knows which overloads are in one: all others in that of float32.
  CpuCastLower = 1 << 18,   // to autocast's dtype
  CpuCastPromote = 1 << 19, // to the widest dtype among the operands
};

} // namespace fsdp::aten

#endif // FSDP_IR_ATEN_FLAGS_H
