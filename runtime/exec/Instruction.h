//===- Instruction.h - What a program is made of at run time ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program is prepared once. Since every tensor has its address, all of them
// are made then, and views, which are metadata, are computed then; what is left
// for a step are the calls and transfers that move bytes.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_EXEC_INSTRUCTION_H
#define FSDP_RUNTIME_EXEC_INSTRUCTION_H

#include "plan/plan_generated.h"
#include "runtime/device/Arenas.h"
#include "runtime/device/PlannedAllocator.h"
#include "runtime/exec/Device.h"
#include "runtime/exec/SharedStates.h"
#include "runtime/exec/Transfers.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace fsdp {

/// What changes from step to step.
struct StepState {
  uint64_t step = 0;
  uint64_t microBatch = 0;                   ///< of the step
  std::vector<Communicator::Ticket> tickets; ///< by future
};

/// A part of a step.
class Instruction {
public:
  virtual ~Instruction() = default;
  virtual void run(StepState &state) = 0;
  /// Runs before the first step, over memory that holds nothing yet and beside
  /// no other rank, to learn what the instruction asks for beside its results.
  virtual void rehearse(StepState &) {}
  /// Whether the host looks at tensors in each step, or computes some.
  virtual bool needsHost() const { return false; }
  /// Where in the scratch region the next run's temporaries lie, as far as
  /// runs before have shown: for those who watch over memory.
  virtual std::vector<RankMemory::Bytes> temporaries() const { return {}; }
};

/// Calls LibTorch's kernels. The first run observes what they allocate; those
/// behind it are served as observed, from the plan and the scratch region.
class Computation : public Instruction {
public:
  explicit Computation(RankMemory &memory) : memory(memory) {}
  void run(StepState &state) final;
  void rehearse(StepState &state) final { run(state); }
  std::vector<RankMemory::Bytes> temporaries() const final;

protected:
  virtual void compute(StepState &state) = 0;
  /// Gives those of the observed requests that are results their addresses, and
  /// to `spares` the places of results that came from elsewhere, which may be
  /// asked for another time (RankMemory::Replay). Whatever `compute` made is
  /// still held.
  virtual void assignResults(std::span<const ObservedRequest>,
                             std::vector<AllocationSlot> &,
                             std::vector<AllocationSlot> & /*spares*/) {}
  /// Lets go of what `compute` made.
  virtual void release() {}

private:
  void computeOrRelease(StepState &state);
  void observe(StepState &state);

  RankMemory &memory;
  std::vector<AllocationSlot> slots, spares;
  /// Kernels whose requests change from step to step are not observed for ever.
  int observationsLeft = 4;
  bool isObserved = false;
};

/// One that calls `function` with the step's state.
template <typename Function>
std::unique_ptr<Instruction> makeInstruction(Function function) {
  struct Made final : Instruction {
    explicit Made(Function function) : function(std::move(function)) {}
    void run(StepState &state) override { function(state); }
    Function function;
  };
  return std::make_unique<Made>(std::move(function));
}

/// One that calls `function`, with the step's state or without, which calls
/// kernels that make no results.
template <typename Function>
std::unique_ptr<Instruction> makeComputation(RankMemory &memory,
                                             Function function) {
  struct Made final : Computation {
    Made(RankMemory &memory, Function function)
        : Computation(memory), function(std::move(function)) {}
    void compute(StepState &state) override {
      if constexpr (std::is_invocable_v<Function &, StepState &>)
        function(state);
      else
        function();
    }
    Function function;
  };
  return std::make_unique<Made>(memory, std::move(function));
}

/// What all programs of a plan have in common on a rank.
struct RankContext {
  const plan::PlanT &plan;
  const Arenas &arenas;
  RankMemory &memory;
  const Transfers &transfers;
  SharedStates *shared; ///< null: none
  int rank;
  Device &device;
  Copies *copies = nullptr; ///< null: the plan has one memory
};

/// What instructions are prepared from.
struct Preparation : RankContext {
  const plan::ProgramT &program;
  /// By value. Views are undefined until the instruction that makes them has
  /// been prepared.
  std::vector<at::Tensor> values;
  /// By future: where it was started, if among ranks, and where, if between
  /// memories.
  std::vector<Communicator *> futures;
  std::vector<std::optional<Copies::Slot>> copySlots;
  /// By value: whether anything needs what lies there, a result of the program
  /// or an instruction beside the one that makes it.
  std::vector<bool> isUsed;
  /// Of the plan's programs, and of the program's instructions the one at hand.
  uint32_t programIndex = 0, instructionIndex = 0;

  /// Whether a value lies on the host beside the device.
  bool isBeside(uint32_t value) const;
  /// Where tensors of that value are.
  c10::Device deviceOf(uint32_t value) const {
    return isBeside(value) ? c10::Device(c10::kCPU) : device.torch();
  }

  /// Where a value's storage begins that is neither literal nor view.
  char *place(uint32_t value) const;
  /// Address of a value's storage and the bytes that it may use there; null for
  /// literals.
  std::pair<char *, uint64_t> room(uint32_t value) const;
};

// Each kind has its own in runtime/exec/instructions. Null if nothing is left
// to do in a step. Throws fsdp::Error.
#define FSDP_INSTRUCTION(kind)                                                 \
  std::unique_ptr<Instruction> prepare(Preparation &preparation,               \
                                       const plan::kind##T &op);
#include "plan/Instructions.def"

/// Stands between an executor and its instructions: on devices for tests, which
/// see from here what is read and written, where and when.
class Witness {
public:
  virtual ~Witness() = default;
  /// Runs in place of `prepared`, which is null if nothing is left to do in a
  /// step. `isBeside`: the host computes, on what lies beside the device;
  /// `what` names the instruction to people.
  virtual std::unique_ptr<Instruction>
  stand(const Preparation &preparation, const plan::InstructionT &instruction,
        bool isBeside, std::string what,
        std::unique_ptr<Instruction> prepared) = 0;
};

/// The same, of whichever kind it is.
std::unique_ptr<Instruction>
prepareInstruction(Preparation &preparation,
                   const plan::InstructionT &instruction);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_INSTRUCTION_H
