//===- ProgramCheck.h - What instructions' rules ask and say ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_PROGRAMCHECK_H
#define FSDP_PLAN_PROGRAMCHECK_H

#include "plan/Instructions.h"

#include <string>

namespace fsdp {

/// A program whose values have been verified, and where in it a rule is broken.
class ProgramCheck {
public:
  ProgramCheck(const plan::PlanT &plan, const plan::ProgramT &program)
      : plan(plan), program(program), where("program '" + program.name + "'") {}

  const plan::PlanT &plan;
  const plan::ProgramT &program;

  /// Throws fsdp::Error (ArtifactCorrupted).
  [[noreturn]] void refuse(const std::string &what) const;
  static std::string name(int64_t value) {
    return std::string("%").append(std::to_string(value));
  }

  void enumerator(bool known) const {
    if (!known)
      refuse("has an unknown enumerator");
  }
  void finite(double number) const;
  const plan::GroupT &group(uint32_t index) const;

  const plan::ValueT &value(int64_t index) const;
  size_t root(int64_t index) const;
  /// Where a value's storage lies.
  plan::MemorySpace memory(int64_t index) const {
    return program.values[root(index)]->memory;
  }
  /// Bytes of a value's storage.
  uint64_t room(int64_t index) const;
  const plan::ValueT &contiguous(int64_t index) const;
  /// A value whose storage has room of its own.
  bool isPlace(int64_t index) const {
    plan::Place place = value(index).place;
    return place == plan::Place::slot || place == plan::Place::state;
  }
  void sameType(int64_t a, int64_t b) const;
  /// That `shard` is a rank's part of `full`.
  void split(int64_t full, int64_t shard, int32_t dim,
             const plan::GroupT &group) const;
  /// That `rows` rows from the value's first one lie in its storage.
  void roomFor(int64_t index, int64_t rows) const;

protected:
  std::string where;
};

// What a kind asks for beside what holds for all operands: those that are
// there, and only those, have been made and not freed, what is to be changed is
// held by no transfer.
#define FSDP_INSTRUCTION(kind)                                                 \
  void verify(const plan::kind##T &op, const ProgramCheck &check);
#include "plan/Instructions.def"

} // namespace fsdp

#endif // FSDP_PLAN_PROGRAMCHECK_H
