//===- SharedStates.cpp - Parameters that need no gathering ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/SharedStates.h"

#include "plan/DType.h"
#include "plan/Instructions.h"
#include "plan/Shape.h"
#include "runtime/exec/Instruction.h"
#include "runtime/exec/Transfers.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <utility>

using namespace fsdp;
using plan::Body;
using plan::Place;

/// Shards begin where kernels like tensors to begin.
static constexpr uint64_t kAlignment = 64;

//===----------------------------------------------------------------------===//
// What can be shared
//===----------------------------------------------------------------------===//

static bool uses(Access access) { return access != Access::end; }

/// Whether the instruction leaves the values that it names as they are, apart
/// from those that it makes, and reads none behind its own end.
static bool onlyReads(const plan::PlanT &plan,
                      const plan::InstructionT &instruction) {
  if (const plan::CallT *call = instruction.body.AsCall()) {
    const plan::OperatorT &op = *plan.operators[call->op];
    auto found =
        c10::Dispatcher::singleton().findSchema({op.name, op.overload});
    return found && !found->schema().is_mutable();
  }
  // It reads until its wait.
  if (instruction.body.AsCopyAcross())
    return false;
  // Of a gather they are the results, or gathered once more.
  const plan::TransferT *start = transferOf(instruction);
  return (!start || !isReduction(start->kind)) &&
         valuesOf(instruction, changes).empty();
}

/// The state that the gather's member `i` makes whole; -1: none that can be.
static int32_t gatheredState(const plan::PlanT &plan,
                             const plan::ProgramT &program,
                             const plan::TransferT &op, size_t i) {
  const plan::ValueT &shard = *program.values[op.inputs[i]];
  if (shard.place != Place::state ||
      program.values[op.outputs[i]]->place != Place::slot)
    return -1;
  const plan::StateT &state = *plan.states[shard.state];
  auto bytes = checkedExtent(shard.shape, {}, dtypeBytes(shard.dtype));
  bool fits = isFloat(state.dtype) && state.group == op.group &&
              plan.groups[op.group]->size > 1 && bytes == state.bytes &&
              state.bytes != 0 && state.bytes % kAlignment == 0;
  return fits ? static_cast<int32_t>(shard.state) : -1;
}

/// The gathered forms that a program only reads.
static SharedReads findGathered(const plan::PlanT &plan,
                                const plan::ProgramT &program) {
  SharedReads reads;
  reads.gathered.assign(program.values.size(), -1);
  for (const auto &instruction : program.instructions)
    if (const plan::TransferT *op = gatherOf(*instruction))
      for (size_t i = 0; i < op->inputs.size(); ++i)
        reads.gathered[op->outputs[i]] = gatheredState(plan, program, *op, i);
  for (const auto &instruction : program.instructions)
    if (!onlyReads(plan, *instruction))
      for (uint32_t value : valuesOf(*instruction))
        reads.gathered[rootOf(program, value)] = -1;
  for (const auto &result : program.results)
    reads.gathered[rootOf(program, result->value)] = -1;
  return reads;
}

namespace {
/// Where a program uses states, by state: instructions, in order.
struct Uses {
  Uses(const plan::PlanT &plan, const plan::ProgramT &program,
       const SharedReads &reads)
      : lastReads(plan.states.size(), -1), others(plan.states.size()) {
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const plan::InstructionT &instruction = *program.instructions[i];
      auto index = static_cast<int64_t>(i);
      for (uint32_t value : valuesOf(instruction, uses))
        if (int32_t state = reads.gathered[rootOf(program, value)]; state >= 0)
          lastReads[static_cast<size_t>(state)] = index;
      if (gatherOf(instruction))
        continue;
      for (uint32_t named : valuesOf(instruction)) {
        const plan::ValueT &value = *program.values[rootOf(program, named)];
        if (value.place == Place::state)
          others[value.state].push_back(index);
      }
    }
  }

  std::vector<int64_t> lastReads;           ///< of gathered forms; -1: none
  std::vector<std::vector<int64_t>> others; ///< than to gather it
};

/// What must be awaited in front of which instruction.
std::vector<SharedWrite> findWrites(const Uses &uses,
                                    const std::vector<bool> &states) {
  std::map<int64_t, int64_t> lastReads; // by instruction that writes
  for (size_t state = 0; state < states.size(); ++state)
    if (states[state])
      for (int64_t index : uses.others[state]) {
        auto [it, isNew] = lastReads.try_emplace(index, uses.lastReads[state]);
        it->second = std::max(it->second, uses.lastReads[state]);
      }
  std::vector<SharedWrite> writes;
  for (auto [index, lastRead] : lastReads)
    if (writes.empty() || lastRead > writes.back().lastRead)
      writes.push_back({lastRead, index});
  return writes;
}
} // namespace

Sharing::Sharing(const plan::PlanT &plan) : states(plan.states.size()) {
  std::map<const plan::ProgramT *, Uses> usesOf;
  for (const auto &program : plan.programs) {
    SharedReads &reads = programs[program.get()] = findGathered(plan, *program);
    for (int32_t state : reads.gathered)
      if (state >= 0)
        states[static_cast<size_t>(state)] = true;
    usesOf.try_emplace(program.get(), plan, *program, reads);
  }
  for (const auto &[program, uses] : usesOf)
    for (size_t state = 0; state < states.size(); ++state)
      for (int64_t index : uses.others[state])
        if (index <= uses.lastReads[state])
          states[state] = false;
  for (auto &[program, reads] : programs) {
    for (int32_t &state : reads.gathered)
      if (state >= 0 && !states[static_cast<size_t>(state)])
        state = -1;
    reads.writes = findWrites(usesOf.at(program), states);
  }
}

//===----------------------------------------------------------------------===//
// Sharing
//===----------------------------------------------------------------------===//

SharedStates::SharedStates(const plan::PlanT &plan, Fabric &fabric,
                           Arena &arena)
    : sharing(plan), addresses(plan.states.size()) {
  if (!arena.isHost())
    return; // publications are the host's
  std::map<uint32_t, Group> found;
  std::vector<uint64_t> offsets(plan.states.size());
  for (size_t i = 0; i < plan.states.size(); ++i)
    if (sharing.states[i]) {
      const plan::StateT &state = *plan.states[i];
      Group &group = found[state.group];
      offsets[i] = group.bytes;
      group.bytes += state.bytes * plan.groups[state.group]->size;
    }
  for (auto &[index, group] : found) {
    GroupRanks ranks{"shared " + plan.groups[index]->name,
                     groupRanks(*plan.groups[index], fabric.rank())};
    group.memory = std::static_pointer_cast<Arena>(fabric.meeting()->share(
        ranks, [&] { return std::make_shared<Arena>(group.bytes); }));
    if (!group.memory)
      return;
    group.communicator = fabric.createCommunicator(ranks);
  }
  groups = std::move(found);
  for (size_t i = 0; i < plan.states.size(); ++i)
    if (sharing.states[i]) {
      const plan::StateT &state = *plan.states[i];
      addresses[i] = groups[state.group].memory->at(offsets[i]);
      auto position = static_cast<uint64_t>(
          groupPosition(*plan.groups[state.group], fabric.rank()));
      arena.move(state.offset, state.bytes,
                 addresses[i] + position * state.bytes);
    }
}

char *SharedStates::addressOf(const plan::ProgramT &program,
                              uint32_t value) const {
  if (!isActive())
    return nullptr;
  int32_t state = sharing.programs.at(&program).gathered[value];
  return state < 0 ? nullptr : addresses[static_cast<size_t>(state)];
}

namespace {

/// An instruction, if any, with something to do before and behind it in each
/// step.
class Guarded final : public Instruction {
public:
  using Action = std::function<void(uint64_t step)>;

  Guarded(Action before, std::unique_ptr<Instruction> inner, Action behind)
      : before(std::move(before)), inner(std::move(inner)),
        behind(std::move(behind)) {}

  void run(StepState &state) override {
    if (before)
      before(state.step);
    if (inner)
      inner->run(state);
    if (behind)
      behind(state.step);
  }
  void rehearse(StepState &state) override {
    if (inner)
      inner->rehearse(state);
  }
  bool needsHost() const override { return true; }

private:
  const Action before;
  const std::unique_ptr<Instruction> inner;
  const Action behind;
};

} // namespace

void SharedStates::publish(Publication &publication, uint64_t step) {
  publication.clear();
  for (auto &[key, group] : groups)
    publication.push_back(group.communicator->start(
        {{CollectiveKind::all_gather, "shared parameters", step}}));
}

void SharedStates::await(const Publication &publication) {
  size_t next = 0;
  for (auto &[key, group] : groups)
    group.communicator->wait(publication[next++]);
}

std::unique_ptr<Instruction>
SharedStates::guard(const plan::ProgramT &program, uint32_t index,
                    std::unique_ptr<Instruction> instruction) {
  if (!isActive())
    return instruction;
  // A program that writes none: the next one that does speaks for it.
  Guarded::Action before, behind;
  for (const SharedWrite &write : sharing.programs.at(&program).writes) {
    Publication &publication = publications[&write];
    if (index == write.lastRead)
      behind = [this, &publication](uint64_t step) {
        publish(publication, step);
      };
    if (index != write.index)
      continue;
    before = [this, &publication, isFirst = write.lastRead < 0](uint64_t step) {
      if (isFirst)
        publish(publication, step);
      await(publication);
    };
  }
  if (!before && !behind)
    return instruction;
  return std::make_unique<Guarded>(std::move(before), std::move(instruction),
                                   std::move(behind));
}
