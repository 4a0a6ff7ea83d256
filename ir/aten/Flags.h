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

  // LibTorch's CUDA kernels: in which the host waits for the GPU, which no CUDA
  // graph can hold (passes/analysis/CudaSyncs.h), beside those that LibTorch
  // calls DataDependentOutput or DynamicOutputShape.
  SyncsOnCuda = 1 << 20,   // it reads numbers that the GPU has, or waits until
                           // it has given it some
  SolvesOnCuda = 1 << 21,  // cuSOLVER computes on the host as well, or says
                           // there how it went
  MaySyncOnCuda = 1 << 22, // under a condition, which has a rule

  // What they allocate beside results (passes/analysis/CudaScratch.h); of an
  // operator with none of these that is not pointwise nothing is known.
  CudaScratchNone = 1 << 23,    // nothing
  CudaScratchStrided = 1 << 24, // strided operands, made contiguous
  CudaScratchSums = 1 << 25,    // partial results of a reduction's blocks
  CudaScratchRule = 1 << 26,    // what a rule says
};

} // namespace fsdp::aten

#endif // FSDP_IR_ATEN_FLAGS_H
