//===- CodeLibrary.h - Asks libfsdp-kernels.so for code ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_KERNELS_CODELIBRARY_H
#define FSDP_KERNELS_CODELIBRARY_H

#include "plan/plan_generated.h"

#include <string>
#include <string_view>

namespace fsdp {

/// Whether libfsdp-kernels.so lies beside this library or program, or in
/// ../lib. Loads nothing.
bool hasKernelLibrary();

/// This processor's name in Library.h. Throws fsdp::Error (KernelsUnusable) if
/// there is no code for it.
std::string_view targetOfProcessor();

/// A program as the library takes it.
std::string serialize(const plan::KernelProgramT &program);

/// What code of a serialized program for `target` is found by: another build
/// of the library, told by its file's size and time, asks for other code.
std::string requestFor(std::string_view serialized, std::string_view target);

/// The image of a serialized program's code for `target`, or a GPU's text, by
/// the library, which
/// the first call loads, and which stays. Throws fsdp::Error (KernelsUnusable).
/// Any thread may call it.
std::string makeCode(std::string_view serialized, std::string_view target);

} // namespace fsdp

#endif // FSDP_KERNELS_CODELIBRARY_H
