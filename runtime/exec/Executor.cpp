//===- Executor.cpp - Runs a prepared program -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Executor.h"

#include "plan/Instructions.h"
#include "plan/Operators.h"
#include "runtime/device/DTypes.h"
#include "runtime/device/Tensors.h"
#include "runtime/exec/Device.h"
#include "runtime/exec/IndexGuard.h"
#include "runtime/exec/NonFiniteTrace.h"
#include "runtime/log/Log.h"
#include "runtime/profile/Recorder.h"
#include "support/Error.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

using namespace fsdp;
using plan::Place;

/// Strides of a contiguous tensor if the plan states none.
static std::vector<int64_t> stridesOf(const plan::ValueT &value) {
  if (!value.strides.empty())
    return value.strides;
  std::vector<int64_t> strides(value.shape.size(), 1);
  for (size_t i = strides.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(value.shape[i], 1);
  return strides;
}

static at::Tensor makeTensor(const Preparation &preparation, uint32_t index) {
  const plan::ValueT &value = *preparation.program.values[index];
  c10::ScalarType dtype = toScalarType(value.dtype);
  if (value.place != Place::literal)
    return tensorAt(preparation.place(index), value.shape, stridesOf(value),
                    dtype, preparation.deviceOf(index));
  at::Tensor tensor = at::empty_strided(value.shape, stridesOf(value), dtype);
  std::memcpy(tensor.mutable_data_ptr(), value.literal.data(),
              value.literal.size());
  if (value.wrapped)
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  else if (!preparation.deviceOf(index).is_cpu())
    return tensor.to(preparation.device.torch());
  return tensor;
}

namespace {
/// What the host computes beside a device: behind the copies that it waited
/// for.
class BesideInstruction final : public Instruction {
public:
  BesideInstruction(Copies &copies, std::unique_ptr<Instruction> inner)
      : copies(copies), inner(std::move(inner)) {}
  void run(StepState &state) override {
    copies.join();
    inner->run(state);
  }
  void rehearse(StepState &state) override { inner->rehearse(state); }
  bool needsHost() const override { return true; }

private:
  Copies &copies;
  const std::unique_ptr<Instruction> inner;
};
} // namespace

static bool computesBeside(const Preparation &preparation,
                           const plan::InstructionT &instruction) {
  if (!preparation.copies || preparation.device.isHost() ||
      flightOf(instruction))
    return false;
  std::vector<uint32_t> named = valuesOf(instruction);
  return std::ranges::any_of(
      named, [&](uint32_t value) { return preparation.isBeside(value); });
}

std::string Executor::describe(const plan::InstructionT &instruction) const {
  std::string text;
  if (const plan::CallT *call = instruction.body.AsCall()) {
    const plan::OperatorT &op = *plan.operators[call->op];
    text = fullName(op.name, op.overload);
  } else if (const plan::KernelT *kernel = instruction.body.AsKernel()) {
    // What it stands for.
    text = "kernel '" + plan.kernels[kernel->program]->name + "'";
  } else {
    text = kindOf(instruction);
  }
  if (instruction.at >= 0)
    text += " of " + plan.locations[instruction.at];
  return text;
}

template <typename Body>
void Executor::explainErrors(const plan::InstructionT &instruction,
                             Body body) const {
  try {
    body();
  } catch (const Error &error) {
    // Errors of transfers speak of bucket and step themselves.
    if (error.exitStatus() == 3)
      throw;
    throw Error(error.id(), describe(instruction) + ": " + error.what());
  } catch (const c10::OutOfMemoryError &error) {
    // A device's; the host's says no such thing.
    throw Error(ErrorId::OutOfMemory,
                describe(instruction) + ": " + error.what_without_backtrace() +
                    " Use more ranks, or a smaller batch");
  } catch (const c10::Error &error) {
    throw Error(ErrorId::KernelFailed,
                hintAtIndices(describe(instruction) + ": " +
                              error.what_without_backtrace()));
  } catch (const std::exception &error) {
    throw Error(ErrorId::KernelFailed,
                describe(instruction) + ": " + error.what());
  }
}

static uint32_t indexOf(const plan::PlanT &plan,
                        const plan::ProgramT &program) {
  auto found = std::ranges::find(plan.programs, &program,
                                 [](const auto &each) { return each.get(); });
  return static_cast<uint32_t>(found - plan.programs.begin());
}

/// By value, of their roots: whether anybody needs what lies there beside who
/// makes it.
static std::vector<bool> findUsed(const plan::ProgramT &program) {
  std::vector<bool> isUsed(program.values.size());
  for (const auto &instruction : program.instructions)
    for (uint32_t value : valuesOf(*instruction, [](Access access) {
           return !defines(access) && access != Access::end;
         }))
      isUsed[rootOf(program, value)] = true;
  for (const auto &binding : program.results)
    isUsed[rootOf(program, binding->value)] = true;
  return isUsed;
}

Executor::Executor(const RankContext &context, const plan::ProgramT &program)
    : plan(context.plan), program(program), onDevice(&context.arenas.device()),
      memory(context.memory), communicators(context.transfers),
      copies(context.copies), programIndex(indexOf(plan, program)),
      where(communicators.flights() ? communicators.flights()->where()
                                    : unseen) {
  c10::InferenceMode guard;
  Preparation preparation{context, program};
  preparation.isUsed = findUsed(program);
  preparation.programIndex = programIndex;
  preparation.values.resize(program.values.size());
  for (uint32_t i = 0; i < program.values.size(); ++i)
    if (program.values[i]->place != Place::view)
      preparation.values[i] = makeTensor(preparation, i);
  preparation.futures.resize(program.futures);
  preparation.copySlots.resize(program.futures);
  state.tickets.resize(program.futures);
  for (uint32_t index = 0; index < program.instructions.size(); ++index) {
    const plan::InstructionT &instruction = *program.instructions[index];
    preparation.instructionIndex = index;
    explainErrors(instruction, [&] {
      auto prepared = prepareInstruction(preparation, instruction);
      const bool isBeside = computesBeside(preparation, instruction);
      if (Witness *witness = context.device.witness())
        prepared = witness->stand(preparation, instruction, isBeside,
                                  describe(instruction), std::move(prepared));
      if (prepared && isBeside)
        prepared =
            std::make_unique<BesideInstruction>(*copies, std::move(prepared));
      if (context.shared)
        prepared = context.shared->guard(program, index, std::move(prepared));
      if (prepared)
        instructions.push_back({std::move(prepared), &instruction, index});
    });
  }
  values = std::move(preparation.values);
}

std::vector<RankMemory::Bytes>
Executor::findFree(const plan::InstructionT &instruction) const {
  std::vector<std::pair<uint64_t, uint64_t>> taken; // begin, end
  for (const auto &state : plan.states)
    if (state->memory == plan::MemorySpace::device)
      taken.emplace_back(state->offset, state->offset + state->bytes);
  auto take = [&](uint32_t value) {
    const plan::ValueT &root = *program.values[rootOf(program, value)];
    if (root.place != Place::literal &&
        root.memory == plan::MemorySpace::device)
      taken.emplace_back(root.offset, root.offset + root.bytes);
  };
  for (const auto &binding : program.arguments)
    take(binding->value);
  for (uint32_t value : valuesOf(instruction))
    take(value);
  taken.emplace_back(onDevice->bytes(), onDevice->bytes());
  std::ranges::sort(taken);
  std::vector<RankMemory::Bytes> free;
  uint64_t begin = 0;
  for (auto [from, to] : taken) {
    if (begin < from)
      free.emplace_back(onDevice->at(begin), from - begin);
    begin = std::max(begin, to);
  }
  return free;
}

void Executor::rehearse() {
  c10::InferenceMode guard;
  RankMemory::Current current(memory);
  for (const Prepared &prepared : instructions)
    try {
      // What lay there is nobody's, but zeros are valid as indices.
      RankMemory::Loan loan(
          memory, [&] { return findFree(*prepared.source); },
          [&](RankMemory::Bytes part) {
            onDevice->fill(static_cast<uint64_t>(part.data() - onDevice->at(0)),
                           0, part.size());
          });
      explainErrors(*prepared.source,
                    [&] { prepared.instruction->rehearse(state); });
    } catch (const Error &error) {
      if (error.id() != ErrorId::KernelFailed)
        throw;
      log(LogLevel::debug,
          std::string("left out of the warm-up run: ") + error.what());
    }
}

template <typename Run, typename Stops>
bool Executor::advance(Run run, Stops stops) {
  c10::InferenceMode guard;
  while (next < instructions.size()) {
    const Prepared &prepared = instructions[next];
    enter(prepared);
    run(prepared);
    ++next;
    if (stops())
      return true;
  }
  leave();
  return false;
}

template <typename Run>
void Executor::runAll(uint64_t step, Run run) {
  begin(step);
  advance(run, [] { return false; });
}

void Executor::run(uint64_t step) {
  RankMemory::Current current(memory);
  runAll(step, [&](const Prepared &prepared) { runPrepared(prepared); });
}

void Executor::run(uint64_t step, ProfileRecorder &recorder) {
  RankMemory::Current current(memory);
  runAll(step, [&](const Prepared &prepared) {
    int64_t begin = ProfileRecorder::now();
    runPrepared(prepared);
    recorder.add(prepared.index, begin, ProfileRecorder::now());
  });
}

void Executor::run(uint64_t step, NonFiniteTrace &trace) {
  runAll(step, [&](const Prepared &prepared) {
    trace.before(prepared.index);
    {
      // What the trace asks for is no tensor of the plan.
      RankMemory::Current current(memory);
      runPrepared(prepared);
    }
    trace.after(prepared.index);
  });
}

void Executor::begin(uint64_t step, ProfileRecorder *recorder) {
  state.step = step;
  next = 0;
  this->recorder = recorder;
}

void Executor::runMarked(const Prepared &prepared) {
  ProfileRecorder::Marked marked(*recorder, prepared.index);
  int64_t begin = ProfileRecorder::now();
  runPrepared(prepared);
  if (prepared.instruction->needsHost() || flightOf(*prepared.source))
    recorder->add(prepared.index, begin, ProfileRecorder::now());
}

bool Executor::advance() {
  RankMemory::Current current(memory);
  auto isWait = [&](size_t index) {
    return instructions[index].source->body.type == plan::Body::Wait;
  };
  return advance(
      [&](const Prepared &prepared) {
        recorder ? runMarked(prepared) : runPrepared(prepared);
      },
      // What one wait behind another waits for was started before both.
      [&] {
        return next < instructions.size() && isWait(next) && !isWait(next - 1);
      });
}

void Executor::noteLaunch() {
  if (copies)
    copies->noteLaunch();
}

void Executor::abandon() {
  next = instructions.size();
  communicators.abandon();
}

std::string Executor::needsHost() const {
  for (const Prepared &prepared : instructions)
    if (prepared.instruction->needsHost())
      return "the host takes part in " + describe(*prepared.source);
  return "";
}
