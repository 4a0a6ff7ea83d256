//===- Library.h - What libfsdp-kernels.so does -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libfsdp-kernels.so (kernels/emit) has LLVM in it, and is loaded when code is
// to be made. It takes and gives bytes alone.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_KERNELS_LIBRARY_H
#define FSDP_KERNELS_LIBRARY_H

#include <cstddef>

namespace fsdp {

/// Part of what cached code is found by: raised when the same program becomes
/// other code.
inline constexpr int kEmitterVersion = 4;

struct KernelLibrary {
  int version; ///< kEmitterVersion of its build
  /// Makes code of a program, a finished flatbuffer of plan.fbs'
  /// KernelProgram, for a target of kernels/emit/Target.h. Calls `take` once:
  /// if true is returned with an image (KernelFunction's first byte is its
  /// first), or for a GPU with text (Ptx.h), else with what does not hold of
  /// the program, beginning with a verb. Whoever wrote the bytes, it reads
  /// nothing else. Any thread may call it.
  bool (*compile)(const char *program, size_t bytes, const char *target,
                  void (*take)(void *to, const char *bytes, size_t count),
                  void *to);
};

} // namespace fsdp

/// What the library is entered by. Never freed.
extern "C" const fsdp::KernelLibrary *fsdpKernelLibrary();

#endif // FSDP_KERNELS_LIBRARY_H
