//===- Uses.h - The values that an instruction names ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_USES_H
#define FSDP_PLAN_USES_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <vector>

namespace fsdp {

/// The values that an instruction names, by what it does to them, in no order
/// that matters. A transfer's results count as written by it, although they are
/// there when it was waited for.
struct Accesses {
  std::vector<uint32_t> reads, writes; ///< what is changed is in both
  std::vector<uint32_t> others;        ///< ended, or padded beside
};
/// Throws fsdp::Error (ArtifactCorrupted) if the instruction has no known kind.
Accesses accessesOf(const plan::InstructionT &instruction);

/// Every value that the instruction reads, writes or ends, in no order that
/// matters. A wait names none: its values are its start's.
std::vector<uint32_t> namedValues(const plan::InstructionT &instruction);

/// The value whose storage `value` lies in.
inline uint32_t rootOf(const plan::ProgramT &program, uint32_t value) {
  const plan::ValueT &v = *program.values[value];
  return v.place == plan::Place::view ? v.base : value;
}

} // namespace fsdp

#endif // FSDP_PLAN_USES_H
