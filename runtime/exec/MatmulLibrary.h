//===- MatmulLibrary.h - Who multiplies matrices ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_MATMULLIBRARY_H
#define FSDP_RUNTIME_EXEC_MATMULLIBRARY_H

namespace fsdp {

/// Who multiplies matrices of f32 on the CPU.
enum class MatmulLibrary {
  automatic, ///< oneDNN for large ones where the processor is better at it
  blas,      ///< LibTorch's own choice: the bits of PyTorch
  onednn     ///< oneDNN for large ones
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_MATMULLIBRARY_H
