//===- MatmulLibrary.h - Who multiplies matrices ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_MATMULLIBRARY_H
#define FSDP_RUNTIME_EXEC_MATMULLIBRARY_H

#include <array>
#include <string_view>
#include <utility>

namespace fsdp {

/// Who multiplies matrices of f32 on the CPU.
enum class MatmulLibrary {
  automatic, ///< oneDNN for large ones where the processor is better at it
  blas,      ///< LibTorch's own choice: the bits of PyTorch
  onednn     ///< oneDNN for large ones
};
constexpr std::array<std::pair<std::string_view, MatmulLibrary>, 3>
namesOf(MatmulLibrary) {
  return {{{"auto", MatmulLibrary::automatic},
           {"blas", MatmulLibrary::blas},
           {"onednn", MatmulLibrary::onednn}}};
}

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_MATMULLIBRARY_H
