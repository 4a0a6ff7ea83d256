//===- Uses.h - The values that an instruction names ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_PLAN_USES_H
#define FSDP_RUNTIME_PLAN_USES_H

#include "runtime/plan/plan_generated.h"

#include <cstdint>
#include <vector>

namespace fsdp {

/// Every value that the instruction reads, writes or ends, in no order that
/// matters. A wait names none: its values are its start's.
std::vector<uint32_t> namedValues(const plan::InstructionT &instruction);

/// The value whose storage `value` lies in.
inline uint32_t rootOf(const plan::ProgramT &program, uint32_t value) {
  const plan::ValueT &v = *program.values[value];
  return v.place == plan::Place::view ? v.base : value;
}

} // namespace fsdp

#endif // FSDP_RUNTIME_PLAN_USES_H
