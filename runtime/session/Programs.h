//===- Programs.h - The programs of an artifact -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An artifact may hold several programs over the same states: parts of a step,
// and programs that do the same at different shapes of the inputs.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_SESSION_PROGRAMS_H
#define FSDP_RUNTIME_SESSION_PROGRAMS_H

#include "plan/Programs.h"
#include "runtime/comm/Communicator.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace fsdp {

/// The programs of the first of `entries` that the artifact has, in its order;
/// if `wanted` is not empty, the one of that name ("train/step[x.0=4]") or of
/// those shapes ("x.0=4"). Throws fsdp::Error: RuntimeUnsupported if there is
/// no such entry, DataShape if there is no such program.
std::vector<const plan::ProgramT *> findPrograms(const plan::PlanT &plan,
                                                 std::span<const Entry> entries,
                                                 const std::string &wanted);

/// What a step runs, each of its micro-batches by one program.
struct StepPrograms {
  /// By part, then by the shapes of the inputs, in one order for all parts. A
  /// step of one micro-batch has one part; of several, the first, the last, and
  /// in between the one of all others.
  std::vector<std::vector<const plan::ProgramT *>> parts;
  uint64_t microBatches = 1;

  bool isTraining() const {
    return parts[0][0]->kind == plan::ProgramKind::train;
  }
  size_t partOf(uint64_t microBatch) const {
    if (microBatch == 0)
      return 0;
    return microBatch + 1 == microBatches ? parts.size() - 1 : 1;
  }
};

/// Those of the artifact's step: to train if it has one, else for inference.
/// `wanted` as for `findPrograms`, whatever the part that it names.
StepPrograms findStep(const plan::PlanT &plan, const std::string &wanted);

/// The programs that compute the loss of what `training` read, in their order;
/// none if the artifact has none.
std::vector<const plan::ProgramT *>
findValidation(const plan::PlanT &plan,
               const std::vector<const plan::ProgramT *> &training);

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

  /// Collective: the greatest of all ranks' numbers.
  uint64_t findGreatest(uint64_t number, uint64_t step);

private:
  void gather(uint64_t number, uint64_t step);

  std::unique_ptr<Communicator> communicator;
  uint64_t mine = 0;
  std::vector<uint64_t> all;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_PROGRAMS_H
