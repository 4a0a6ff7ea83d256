//===- Loader.h - Programs of kernels, ready to run -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code is made on the machine that runs it, by libfsdp-kernels.so, and kept in
// the user's cache folder; a file's is run only where its user trusts it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_KERNELS_LOADER_H
#define FSDP_KERNELS_LOADER_H

#include "kernels/GivenCode.h"
#include "kernels/Kernel.h"
#include "plan/plan_generated.h"

#include <cstdint>
#include <memory>

namespace fsdp {

/// A program that can be run, by code or by the interpreter: the same bits.
/// Never changes, so any number of threads may run it at once.
class LoadedKernel {
public:
  virtual ~LoadedKernel() = default;

  /// As KernelFunction (Kernel.h): one address for each operand of the
  /// program, in its order.
  virtual void run(void *const *operands, int64_t begin, int64_t end) const = 0;
  /// The code, which lives as long as this; null: there is the interpreter
  /// alone.
  virtual KernelFunction code() const = 0;
};

/// Whether FSDP_KERNELS in the environment asks for the interpreter. Throws
/// fsdp::Error (KernelsUnusable) if it asks for something else.
bool wantsInterpreter();

/// A program, ready to run on this machine's processor. Equal programs of a
/// process share what is still held of one, which is made once, by whoever asks
/// first. FSDP_KERNELS=interpret in the environment asks for the interpreter.
///
/// Throws fsdp::Error (KernelsUnusable) if the program is not sound
/// (plan/Kernels.h), if the interpreter is wanted and would take more than 256
/// MiB for a row, or if code is wanted and libfsdp-kernels.so is not beside
/// this library or program, or in ../lib, is of another version, or has no code
/// for this processor or for so long a program. Any thread may call it.
///
/// Code of it that is `given` for this processor is run as it is.
std::shared_ptr<const LoadedKernel>
loadKernel(const plan::KernelProgramT &program, const GivenCode &given = {});

} // namespace fsdp

#endif // FSDP_KERNELS_LOADER_H
