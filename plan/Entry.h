//===- Entry.h - What a program does, whatever its shapes -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_ENTRY_H
#define FSDP_PLAN_ENTRY_H

#include <string_view>

namespace fsdp {

/// What a run asks for, "train/step" of a program "train/step[x.0=4]": programs
/// of one entry do the same at different shapes of their inputs.
constexpr std::string_view entryOf(std::string_view program) {
  return program.substr(0, program.find('['));
}

/// What distinguishes it from others of its entry, "x.0=4"; may be empty.
constexpr std::string_view bindingOf(std::string_view program) {
  std::string_view rest = program.substr(entryOf(program).size());
  return rest.size() < 2 ? std::string_view() : rest.substr(1, rest.size() - 2);
}

/// Computes the loss of a training program's inputs and changes nothing.
inline constexpr std::string_view kValidationEntry = "eval/step";

/// The parts of a training step of several micro-batches, in their order; a
/// step of two has no middle ones. A step of one is "train/step".
inline constexpr std::string_view kStepParts[] = {"train/first", "train/middle",
                                                  "train/last"};

} // namespace fsdp

#endif // FSDP_PLAN_ENTRY_H
