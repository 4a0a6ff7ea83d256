//===- TransientBytes.h - Memory in use over a program ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_TRANSIENTBYTES_H
#define FSDP_SIMULATE_TRANSIENTBYTES_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <vector>

namespace fsdp {

/// Bytes of the device's memory in which tensors other than states lie, while
/// each instruction of the verified program runs. A tensor counts from the
/// instruction that makes it through the last one that names it; what transfers
/// move until the wait; inputs and outputs to the end. Tensors that share bytes
/// count once.
std::vector<uint64_t> getTransientBytes(const plan::ProgramT &program);

} // namespace fsdp

#endif // FSDP_SIMULATE_TRANSIENTBYTES_H
