//===- Programs.h - The programs of an artifact -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An artifact may hold several programs over the same states. What a run asks
// for is an entry, "train/step"; the programs of one entry do the same at
// different shapes of the inputs: "train/step[x.0=4]", "train/step[x.0=8]".
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_PROGRAMS_H
#define FSDP_RUNTIME_PROGRAMS_H

#include "runtime/comm/Communicator.h"
#include "runtime/plan/plan_generated.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace fsdp {

/// The programs of the first of `entries` that the artifact has, in its order;
/// if `wanted` is not empty, the one of that name or, in brackets, of that
/// binding ("x.0=4"). Throws fsdp::Error: RuntimeUnsupported if there is no
/// such entry, DataShape if there is no such program.
std::vector<const plan::ProgramT *>
findPrograms(const plan::PlanT &plan, std::span<const char *const> entries,
             const std::string &wanted);

/// Makes sure, before the first transfer of a step, that all ranks picked the
/// same program: their transfers would never meet otherwise.
class ProgramAgreement {
public:
  /// Collective. `fabric` outlives it.
  explicit ProgramAgreement(Fabric &fabric);

  /// Collective: an all-gather of eight bytes. Throws fsdp::Error
  /// (DataShape) that names a rank which picked another one.
  void check(size_t picked, const std::vector<const plan::ProgramT *> &programs,
             uint64_t step);

private:
  std::unique_ptr<Communicator> communicator;
  uint64_t mine = 0;
  std::vector<uint64_t> all;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_PROGRAMS_H
