//===- VerifyProgram.cpp - Check one program of a plan --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One walk over the instructions with three facts for each value: whether it is
// defined, whether its storage was freed, how many transfers hold its storage.
// What an instruction does to its operands says what must hold of them and what
// holds behind it; rules of its own, its kind has in plan/instructions.
//
//===----------------------------------------------------------------------===//

#include "plan/VerifyProgram.h"

#include "plan/DType.h"
#include "plan/ProgramCheck.h"
#include "plan/Shape.h"
#include "plan/Target.h"

using namespace fsdp;
using plan::Place;
using plan::ValueT;

namespace {

class ProgramVerifier : public ProgramCheck {
public:
  using ProgramCheck::ProgramCheck;

  void run();

private:
  // Values.
  void verifyValue(size_t index) const;
  void verifyArgument(const plan::BindingT &binding);
  void verifyResult(const plan::BindingT &binding);
  void define(int64_t index);
  void use(int64_t index) const;
  /// That the bytes of a value may change.
  void verifyChange(int64_t index) const;

  // Instructions.
  void verifyInstruction(const plan::InstructionT &instruction);
  void verifyOperand(const Operand &operand);
  void verifyMemories(const plan::InstructionT &instruction,
                      const Operands &operands) const;
  void start(const Flight &flight);
  void wait(uint32_t future);

  struct Future {
    bool started = false, waited = false;
    std::vector<uint32_t> inputs, outputs;
  };

  std::vector<bool> defined, freed;
  std::vector<uint32_t> inFlight;
  std::vector<Future> futures;
};

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void ProgramVerifier::verifyValue(size_t index) const {
  const ValueT &v = *program.values[index];
  if (v.dtype > plan::DType::MAX || v.place > Place::MAX ||
      v.memory > plan::MemorySpace::MAX)
    refuse("has an unknown element type, place or memory at " + name(index));
  uint64_t element = dtypeBytes(v.dtype);
  auto extent = checkedExtent(v.shape, v.strides, element);
  if (!extent)
    refuse("has no valid shape for " + name(index));
  if (v.place == Place::view && (v.base >= program.values.size() ||
                                 program.values[v.base]->place == Place::view))
    refuse("has a view " + name(index) + " of what is no storage");
  if (v.place == Place::view && program.values[v.base]->memory != v.memory)
    refuse("has a view " + name(index) + " of another memory");
  if (v.place == Place::literal &&
      (!v.strides.empty() || v.literal.size() != *extent))
    refuse("has a literal " + name(index) + " of another size than its type");
  if (v.place == Place::slot || v.place == Place::state) {
    uint64_t peak = peakOf(plan, v.memory);
    if (v.offset > peak || v.bytes > peak - v.offset || v.offset % element)
      refuse("places " + name(index) + " outside of the arena");
  }
  if (v.place == Place::state) {
    if (v.state >= plan.states.size())
      refuse("places " + name(index) + " at a state that does not exist");
    const plan::StateT &state = *plan.states[v.state];
    if (v.offset != state.offset || v.bytes != state.bytes ||
        v.memory != state.memory)
      refuse("places " + name(index) + " beside state '" + state.name + "'");
  }
  if (*extent > room(index))
    refuse("gives " + name(index) + " less room than its type needs");
}

void ProgramVerifier::define(int64_t index) {
  const ValueT &v = value(index);
  if (defined[index])
    refuse("defines " + name(index) + " twice");
  // Also when its slot is reused: a value's storage is that of its root.
  if (v.place == Place::view && !defined[v.base])
    refuse("defines view " + name(index) + " before its base");
  defined[index] = true;
}

void ProgramVerifier::use(int64_t index) const {
  value(index);
  if (!defined[index])
    refuse("uses " + name(index) + " before it is defined");
  if (freed[root(index)])
    refuse("uses " + name(index) + " after it was freed");
}

void ProgramVerifier::verifyChange(int64_t index) const {
  if (inFlight[root(index)])
    refuse("changes " + name(index) + ", which a transfer still holds");
  if (program.values[root(index)]->place == Place::literal)
    refuse("changes the literal " + name(index));
}

void ProgramVerifier::verifyArgument(const plan::BindingT &binding) {
  const ValueT &v = value(binding.value);
  bool isState = binding.state != -1;
  if (isState == (binding.input != -1))
    refuse("binds argument " + name(binding.value) +
           " to not exactly one of state and input");
  if (isState) {
    if (v.place != Place::state ||
        static_cast<int64_t>(v.state) != binding.state)
      refuse("binds argument " + name(binding.value) + " to another state");
    const plan::StateT &state = *plan.states[v.state];
    auto local = state.shape;
    if (state.shard_dim >= 0)
      local = shardShape(std::move(local), state.shard_dim,
                         plan.groups[state.group]->size);
    if (v.dtype != state.dtype || v.shape != local || !v.strides.empty())
      refuse("has another type for argument " + name(binding.value) +
             " than state '" + state.name + "'");
  } else {
    if (binding.input < 0 ||
        binding.input >= static_cast<int64_t>(plan.inputs.size()))
      refuse("binds an argument to an input that does not exist");
    const plan::InputT &input = *plan.inputs[binding.input];
    if (v.place != Place::slot || v.memory != plan::MemorySpace::device ||
        v.dtype != input.dtype || v.shape != input.shape || !v.strides.empty())
      refuse("has another type for argument " + name(binding.value) +
             " than input '" + input.name + "'");
  }
  define(binding.value);
}

void ProgramVerifier::verifyResult(const plan::BindingT &binding) {
  use(binding.value);
  int names = !binding.output.empty() + !binding.metric.empty() +
              !binding.norms.empty() + (binding.state != -1);
  if (binding.input != -1 || names != 1)
    refuse("binds result " + name(binding.value) +
           " to not exactly one of state, output, metric and norms");
  const ValueT &result = value(binding.value);
  if (!binding.output.empty() && !result.strides.empty())
    refuse("gives out '" + binding.output + "', which is not contiguous");
  if (binding.state == -1 &&
      memory(binding.value) != plan::MemorySpace::device && plan.host)
    refuse("gives out result " + name(binding.value) +
           ", which lies on the host");
  if (!binding.metric.empty() && checkedElements(result.shape) != 1)
    refuse("reports '" + binding.metric + "', which is no number");
  if (!binding.norms.empty() &&
      (result.dtype != plan::DType::f32 || !result.strides.empty() ||
       checkedElements(result.shape) != binding.norms.size()))
    refuse("reports norms in " + name(binding.value) +
           ", which has not one number for each");
  if (binding.state == -1)
    return;
  const ValueT &base = value(root(binding.value));
  if (base.place != Place::state ||
      static_cast<int64_t>(base.state) != binding.state)
    refuse("leaves result " + name(binding.value) +
           " elsewhere than in its state");
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// What holds before an instruction.
void ProgramVerifier::verifyOperand(const Operand &operand) {
  auto [access, index] = operand;
  if (defines(access)) {
    value(index);
    return;
  }
  use(index);
  if (access == Access::read)
    return;
  verifyChange(index);
  if (access == Access::end)
    freed[root(index)] = true;
}

/// What computes does so in one memory; ranks exchange what lies on the device.
void ProgramVerifier::verifyMemories(const plan::InstructionT &instruction,
                                     const Operands &operands) const {
  if (!plan.host || instruction.body.AsCopyAcross() ||
      instruction.body.AsFree())
    return;
  std::optional<plan::MemorySpace> all;
  if (transferOf(instruction) || instruction.body.AsZeroPadding() ||
      instruction.body.AsShard() || instruction.body.AsSelectRows() ||
      instruction.body.AsDraw())
    all = plan::MemorySpace::device;
  for (auto [access, index] : operands) {
    const ValueT &base = *program.values[root(index)];
    // A Python number is no tensor of any memory.
    if (base.place == Place::literal && base.wrapped)
      continue;
    if (all && *all != base.memory)
      refuse("names " + name(index) + " on the " +
             plan::EnumNameMemorySpace(base.memory) +
             " beside what lies elsewhere");
    all = base.memory;
  }
}

void ProgramVerifier::start(const Flight &flight) {
  if (flight.future >= futures.size() || futures[flight.future].started)
    refuse("starts a future that does not exist or was started");
  for (uint32_t v : flight.inputs)
    ++inFlight[root(v)];
  // Claimed now, readable after the wait.
  for (uint32_t v : flight.outputs) {
    if (defined[v])
      refuse("defines " + name(v) + " twice");
    if (value(v).place != Place::view)
      ++inFlight[v];
  }
  futures[flight.future] = {true, false, flight.inputs, flight.outputs};
}

void ProgramVerifier::wait(uint32_t index) {
  if (index >= futures.size() || !futures[index].started ||
      futures[index].waited)
    refuse("waits for a future that was not started or was waited for");
  Future &future = futures[index];
  future.waited = true;
  for (uint32_t v : future.inputs)
    --inFlight[root(v)];
  for (uint32_t v : future.outputs) {
    if (value(v).place != Place::view)
      --inFlight[v];
    define(v);
  }
}

void ProgramVerifier::verifyInstruction(const plan::InstructionT &instruction) {
  if (instruction.at < -1 ||
      instruction.at >= static_cast<int64_t>(plan.locations.size()))
    refuse("has a location that does not exist");
  if (!instruction.body.value)
    refuse("is empty");
  Operands operands;
  bool isKnown = visitBody(instruction, [&](const auto &op) {
    listOperands(op, operands);
    for (const Operand &operand : operands)
      verifyOperand(operand);
    fsdp::verify(op, *this);
  });
  if (!isKnown)
    refuse("is of an unknown kind");
  verifyMemories(instruction, operands);
  for (auto [access, index] : operands)
    if (access == Access::overwrite)
      verifyChange(static_cast<int64_t>(root(index)));
  if (const plan::WaitT *op = instruction.body.AsWait())
    return wait(op->future);
  if (std::optional<Flight> flight = flightOf(instruction))
    return start(*flight);
  for (auto [access, index] : operands)
    if (defines(access))
      define(index);
}

void ProgramVerifier::run() {
  size_t count = program.values.size();
  defined.assign(count, false);
  freed.assign(count, false);
  inFlight.assign(count, 0);
  // Bounded by what could possibly start them, not by the counter.
  size_t instructions = program.instructions.size();
  if (program.futures > instructions)
    refuse("states more futures than instructions");
  futures.resize(program.futures);

  for (size_t i = 0; i < count; ++i) {
    verifyValue(i);
    if (program.values[i]->place == Place::literal)
      define(static_cast<int64_t>(i));
  }
  for (const auto &binding : program.arguments)
    verifyArgument(*binding);
  std::string whole = where;
  for (size_t i = 0; i < instructions; ++i) {
    const plan::InstructionT &instruction = *program.instructions[i];
    where = whole + ", instruction " + std::to_string(i) + " (" +
            kindOf(instruction) + ")";
    verifyInstruction(instruction);
  }
  where = whole;
  for (size_t i = 0; i < futures.size(); ++i)
    if (!futures[i].waited)
      refuse("never waits for future " + std::to_string(i));
  for (const auto &binding : program.results)
    verifyResult(*binding);
}

} // namespace

void fsdp::verifyProgram(const plan::PlanT &plan,
                         const plan::ProgramT &program) {
  ProgramVerifier(plan, program).run();
}
