//===- Lifetimes.h - When a program's tensors are in use --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_LIFETIMES_H
#define FSDP_PLAN_LIFETIMES_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <vector>

namespace fsdp {

/// A tensor that lies in one of a rank's regions for a part of a program.
struct Lifetime {
  uint32_t value;       ///< a slot
  uint32_t made, last;  ///< instructions that need it, both included
  bool isInput = false; ///< of the program
};

/// Of all slots, inputs first, in the order in which they are made. A plan says
/// no more than where a slot lies: it is needed until the last instruction that
/// names it or a view of it, what a transfer moves until that was waited for,
/// and inputs and what the program returns to its end. The plan was verified.
std::vector<Lifetime> findLifetimes(const plan::ProgramT &program);

} // namespace fsdp

#endif // FSDP_PLAN_LIFETIMES_H
