//===- Programs.h - What the programs of a plan are for ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_PROGRAMS_H
#define FSDP_PLAN_PROGRAMS_H

#include "plan/plan_generated.h"

#include <string>

namespace fsdp {

/// What a run asks for: programs of one entry do the same at different shapes
/// of their inputs.
struct Entry {
  plan::ProgramKind kind;
  plan::StepPart part = plan::StepPart::whole;

  auto operator<=>(const Entry &) const = default;
};

inline constexpr Entry kTrain{plan::ProgramKind::train};
inline constexpr Entry kInfer{plan::ProgramKind::infer};
inline constexpr Entry kValidation{plan::ProgramKind::eval};

/// The parts of a training step of several micro-batches, in their order; a
/// step of two has no middle ones.
inline constexpr Entry kStepParts[] = {
    {plan::ProgramKind::train, plan::StepPart::first},
    {plan::ProgramKind::train, plan::StepPart::middle},
    {plan::ProgramKind::train, plan::StepPart::last}};

inline Entry getEntry(const plan::ProgramT &program) {
  return {program.kind, program.part};
}

/// "train/step", "train/first", as people know it.
inline std::string getEntryName(Entry entry) {
  bool isWhole = entry.part == plan::StepPart::whole;
  return std::string(plan::EnumNameProgramKind(entry.kind)) + "/" +
         (isWhole ? "step" : plan::EnumNameStepPart(entry.part));
}

} // namespace fsdp

#endif // FSDP_PLAN_PROGRAMS_H
