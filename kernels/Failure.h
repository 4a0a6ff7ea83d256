//===- Failure.h - What there is no code for --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_KERNELS_FAILURE_H
#define FSDP_KERNELS_FAILURE_H

#include <stdexcept>

namespace fsdp {

/// Says of a program what does not hold, beginning with a verb.
struct EmitFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

} // namespace fsdp

#endif // FSDP_KERNELS_FAILURE_H
