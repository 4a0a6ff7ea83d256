//===- StepRunner.h - The steps of a session --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_SESSION_STEPRUNNER_H
#define FSDP_RUNTIME_SESSION_STEPRUNNER_H

#include "plan/Grains.h"
#include "runtime/session/Inputs.h"
#include "runtime/session/LearningRates.h"
#include "runtime/session/NonFinitePolicy.h"
#include "runtime/session/Programs.h"
#include "runtime/session/Workplace.h"

namespace fsdp {

/// Those of a step that a rank computes, and how many there are.
struct StepGrains {
  GrainBlock own;
  uint64_t total;
};

/// Runs steps, micro-batch by micro-batch, and knows how far the training is.
class StepRunner {
public:
  /// Prepares the programs. All that is referred to outlives the runner.
  /// Throws fsdp::Error as Executor and NonFinitePolicy.
  StepRunner(Workplace &place, const StepPrograms &programs,
             const std::optional<StepGrains> &grains, Inputs &inputs,
             const LearningRates &rates, const SessionOptions &options);

  std::vector<Executor *> executors() const;
  /// Collective, before the first step: programs that differ in shapes alone
  /// are agreed on from now on.
  void agree();

  /// Collective. The step's last one gives its result. Throws fsdp::Error.
  std::optional<StepResult> run(std::span<const GivenInput> given);

  /// Of the program that ran last, or of the first one.
  const std::vector<OutputTensor> &outputs();

  /// Other programs are about to use the memory: fills it, if runs do.
  void vacate();
  /// They have.
  void resume();

  /// What comes next is `step`, whose rows are those from `rows` on.
  void continueAt(uint64_t step, uint64_t rows);
  uint64_t stepsDone() const { return nextMicroBatch / programs.microBatches; }
  bool isBetweenSteps() const {
    return nextMicroBatch % programs.microBatches == 0;
  }
  uint64_t rowsDone() const { return rowsRead; }
  /// Null: the programs leave no choice.
  ProgramAgreement *choice() { return agreement ? &*agreement : nullptr; }

  ProfileRecorder *recorder = nullptr; ///< null: nobody writes down what runs

private:
  struct Prepared {
    std::unique_ptr<Executor> executor;
    std::vector<OutputTensor> outputs;
    /// Results that are numbers of all ranks.
    std::vector<std::pair<std::string, const plan::BindingT *>> metrics;
    std::vector<const plan::BindingT *> norms; ///< vectors of such
    // What lies where the host cannot reach it:
    std::vector<std::unique_ptr<std::byte[]>> copies; ///< by output
    std::vector<const char *> places;
    std::optional<uint64_t> copiedAt; ///< micro-batch
  };
  Prepared prepare(const plan::ProgramT &program);
  void runProgram(size_t part, size_t picked, uint64_t number,
                  StepResult &result);
  void finishStep(StepResult &result);
  void readNorms(const Prepared &program, StepResult &result) const;
  uint64_t firstRow() const;
  void countRows();

  Workplace &place;
  const StepPrograms &programs;
  const std::optional<StepGrains> &grains;
  Inputs &inputs;
  const LearningRates &rates;
  NonFinitePolicy nonFinite;
  const bool poisons;
  std::vector<std::vector<Prepared>> prepared; ///< by part and program
  size_t lastPart = 0, lastProgram = 0;
  /// Where inputs that a caller sets may change the program from step to step.
  std::optional<ProgramAgreement> agreement;
  bool hasRun = false;
  uint64_t nextMicroBatch = 0; ///< of the training
  /// By all ranks, for those before; with grains, for the steps before.
  uint64_t rowsRead = 0;
  uint64_t missedBefore = 0; ///< bytes, up to the step that runs
};

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_STEPRUNNER_H
