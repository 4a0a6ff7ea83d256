//===- Validation.h - The loss over other data ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_SESSION_VALIDATION_H
#define FSDP_RUNTIME_SESSION_VALIDATION_H

#include "runtime/exec/Device.h"
#include "runtime/exec/Executor.h"
#include "runtime/session/Inputs.h"
#include "runtime/session/Session.h"

#include <memory>
#include <span>
#include <vector>

namespace fsdp {

/// One of several programs that compute the loss of their inputs.
struct LossProgram {
  const plan::ProgramT *program;
  std::unique_ptr<Executor> executor;
};

/// Runs the programs "eval/step" over the states of those that train, which
/// they leave as they are. Transient memory is theirs meanwhile.
class Validation {
public:
  /// Reads up to `batches` batches of all ranks, or with 0 as many as the data
  /// fills; one, of samples, if there are samples alone; none without either.
  /// Throws fsdp::Error as Inputs
  /// does, and DataShape if the data fills no batch.
  Validation(const plan::PlanT &plan, std::vector<LossProgram> programs,
             int rank, const Arena &arena, Device &device,
             const InputSources &sources, uint64_t batches);

  /// Collective. `agreement` is null if there is one program alone. `step` is
  /// the one that training has come to, for errors.
  EvalResult run(uint64_t step, ProgramAgreement *agreement);
  /// Collective: the loss over these inputs alone.
  double runGiven(std::span<const GivenInput> given, uint64_t step,
                  ProgramAgreement *agreement);

  /// Whether there is something that `run` reads.
  bool isRead() const { return batches != 0; }

  const std::vector<LossProgram> &programs() const { return all; }
  std::vector<std::string> paths() const { return inputs.paths(); }
  std::string lengthsHash() const { return inputs.lengthsHash(); }
  /// Bytes that batches read ahead take.
  uint64_t memory() const { return inputs.memory(); }

private:
  struct Term {
    double loss;   ///< times `weight`
    double weight; ///< 1 for a mean over batches
  };

  std::vector<const plan::ProgramT *> listPrograms() const;
  Term readLoss(const LossProgram &program) const;
  /// What the inputs of the batch from that row on fit, the same on all ranks.
  const LossProgram &pick(uint64_t firstRow, uint64_t step,
                          ProgramAgreement *agreement);

  const std::vector<LossProgram> all;
  Device &device;
  Inputs inputs;
  uint64_t batches;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_VALIDATION_H
