//===- Executor.h - Runs a prepared program ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_EXECUTOR_H
#define FSDP_RUNTIME_EXEC_EXECUTOR_H

#include "runtime/comm/FlightRing.h"
#include "runtime/exec/Instruction.h"

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace fsdp {

class NonFiniteTrace;
class ProfileRecorder;

/// One program of a plan on one rank. Used by one thread.
class Executor {
public:
  /// Makes all tensors and finds all operators. What `context` refers to
  /// outlives the executor. Throws fsdp::Error, naming the operator and where
  /// it stands in the model.
  Executor(const RankContext &context, const plan::ProgramT &program);

  /// Runs what computes, over memory whose contents nobody needs, so that the
  /// scratch it takes is known before the first step. Kernels that refuse such
  /// contents are left to be observed in the first step.
  void rehearse();

  /// Which of a step's micro-batches the next runs are; 0 before the first
  /// call.
  void setMicroBatch(uint64_t number) { state.microBatch = number; }

  /// Throws fsdp::Error.
  void run(uint64_t step);

  /// The same, and writes down when each instruction began and ended.
  void run(uint64_t step, ProfileRecorder &recorder);

  /// The same, and writes down where numbers that are not finite come from.
  void run(uint64_t step, NonFiniteTrace &trace);

  /// By value: what a trace of this program looks at.
  std::span<const at::Tensor> tensors() const { return values; }
  /// "aten::mm of layers.3.mlp (model.py:12)", by its number.
  std::string describe(uint32_t instruction) const {
    return describe(*program.instructions[instruction]);
  }
  /// The same in pieces, for one thread that issues the programs of several
  /// ranks in turn: `advance` goes on to in front of the next wait for a
  /// transfer. By then all ranks that have come so far have started it. False:
  /// the end was reached.
  ///
  /// With a recorder, which watches the device, work bears its instructions'
  /// marks, and what only the host knows is written down.
  void begin(uint64_t step, ProfileRecorder *recorder = nullptr);
  bool advance();

  /// Ends a run in pieces that failed: transfers that were started are as if
  /// they never were. All ranks alike.
  void abandon();

  /// What was captured of a run was put on the device, as a graph.
  void noteLaunch();

  /// Why a run cannot be repeated without the host, which computes in it or
  /// looks at tensors; empty if it can.
  std::string needsHost() const;

  const plan::ProgramT &source() const { return program; }
  const Transfers &transfers() const { return communicators; }

  /// What `binding`, one of the program's results, is bound to: a tensor that
  /// lies in one place for good and whose contents change with each run.
  const at::Tensor &getResult(const plan::BindingT &binding) const {
    return values[binding.value];
  }

private:
  struct Prepared {
    std::unique_ptr<Instruction> instruction;
    const plan::InstructionT *source;
    uint32_t index; ///< of the program's instructions
  };

  /// Where the rank is, for whoever looks at it from outside.
  void enter(const Prepared &prepared) {
    where.store(FlightRing::makePlace(programIndex, prepared.index),
                std::memory_order_relaxed);
  }
  void leave() { where.store(FlightRing::kBetween, std::memory_order_relaxed); }

  /// Parts of the device's arena in which no state, no input and nothing that
  /// the instruction names lies.
  std::vector<RankMemory::Bytes>
  findFree(const plan::InstructionT &instruction) const;
  std::string describe(const plan::InstructionT &instruction) const;
  void runPrepared(const Prepared &prepared) {
    explainErrors(*prepared.source, [&] { prepared.instruction->run(state); });
  }
  void runMarked(const Prepared &prepared);
  /// Goes on from `next` to in front of the first instruction that `stops` says
  /// (false: it came to the end). `run` is one instruction's, with whatever
  /// watches it; inlined, so that a run that nobody watches pays nothing.
  template <typename Run, typename Stops>
  bool advance(Run run, Stops stops);
  template <typename Run>
  void runAll(uint64_t step, Run run);
  template <typename Body>
  void explainErrors(const plan::InstructionT &instruction, Body body) const;

  const plan::PlanT &plan;
  const plan::ProgramT &program;
  const Arena *const onDevice;
  RankMemory &memory;
  const Transfers &communicators;
  Copies *const copies;        ///< null: the plan has one memory
  const uint32_t programIndex; ///< of the plan's
  std::atomic<uint64_t> unseen{FlightRing::kBetween}; ///< where nobody looks
  std::atomic<uint64_t> &where;
  std::vector<at::Tensor> values;
  std::vector<Prepared> instructions;
  StepState state;
  size_t next = 0;                     ///< instruction
  ProfileRecorder *recorder = nullptr; ///< of a run in pieces
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_EXECUTOR_H
