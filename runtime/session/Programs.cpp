//===- Programs.cpp - The programs of an artifact -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/session/Programs.h"

#include "support/Error.h"

#include <algorithm>
#include <numeric>

using namespace fsdp;

/// Whether it is meant by its name, by its shapes, or by the name of the whole
/// step that it is a part of.
static bool isMeant(const plan::ProgramT &program, const std::string &wanted) {
  std::string whole = getEntryName(Entry{program.kind});
  if (!program.shapes.empty())
    whole += "[" + program.shapes + "]";
  return wanted.empty() || wanted == program.name || wanted == program.shapes ||
         wanted == whole;
}

std::vector<const plan::ProgramT *>
fsdp::findPrograms(const plan::PlanT &plan, std::span<const Entry> entries,
                   const std::string &wanted) {
  std::string names;
  for (Entry entry : entries) {
    std::vector<const plan::ProgramT *> programs;
    for (const auto &program : plan.programs) {
      if (getEntry(*program) != entry)
        continue;
      names += (names.empty() ? "" : ", ") + program->name;
      if (isMeant(*program, wanted))
        programs.push_back(program.get());
    }
    if (!programs.empty())
      return programs;
    if (!names.empty())
      throw Error(ErrorId::DataShape, "the artifact has no program '" + wanted +
                                          "'; it has " + names);
  }
  for (Entry entry : entries)
    names +=
        (names.empty() ? "neither '" : " nor '") + getEntryName(entry) + "'";
  throw Error(ErrorId::RuntimeUnsupported,
              "the artifact has " + names + "; compile a model with --config");
}

StepPrograms fsdp::findStep(const plan::PlanT &plan,
                            const std::string &wanted) {
  StepPrograms step;
  step.microBatches = plan.training->gradient_accumulation_steps;
  if (step.microBatches == 1) {
    static constexpr Entry kEntries[] = {kTrain, kInfer};
    step.parts.push_back(findPrograms(plan, kEntries, wanted));
    return step;
  }
  // Whatever the part that it names, the others have its shapes.
  std::string shapes = wanted;
  for (const auto &program : plan.programs)
    if (program->kind == plan::ProgramKind::train && isMeant(*program, wanted))
      shapes = wanted.empty() ? wanted : program->shapes;
  for (Entry entry : kStepParts) {
    if (entry == kStepParts[1] && step.microBatches == 2)
      continue;
    std::vector<const plan::ProgramT *> programs =
        findPrograms(plan, {&entry, 1}, shapes);
    // In the order of the first part's; the plan was verified.
    if (!step.parts.empty()) {
      auto position = [&](const plan::ProgramT *program) {
        return std::ranges::find(step.parts[0], program->shapes,
                                 &plan::ProgramT::shapes);
      };
      std::ranges::sort(programs, {}, position);
    }
    step.parts.push_back(std::move(programs));
  }
  return step;
}

std::vector<const plan::ProgramT *>
fsdp::findValidation(const plan::PlanT &plan,
                     const std::vector<const plan::ProgramT *> &training) {
  std::vector<const plan::ProgramT *> found;
  for (const plan::ProgramT *trains : training)
    for (const auto &program : plan.programs)
      if (program->kind == plan::ProgramKind::eval &&
          program->shapes == trains->shapes)
        found.push_back(program.get());
  return found;
}

static GroupRanks allRanks(const Fabric &fabric) {
  GroupRanks group{"programs", std::vector<int>(fabric.worldSize())};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

ProgramAgreement::ProgramAgreement(Fabric &fabric)
    : communicator(fabric.createHostCommunicator(allRanks(fabric))),
      all(fabric.worldSize()) {}

void ProgramAgreement::gather(uint64_t number, uint64_t step) {
  mine = number;
  std::fill(all.begin(), all.end(), mine); // for back ends that move no data
  Member member{&mine, all.data(), sizeof(mine)};
  communicator->wait(communicator->start(
      {{CollectiveKind::all_gather, "programs", step}, {&member, 1}}));
}

uint64_t ProgramAgreement::findGreatest(uint64_t number, uint64_t step) {
  gather(number, step);
  return std::ranges::max(all);
}

void ProgramAgreement::check(
    size_t picked, const std::vector<const plan::ProgramT *> &programs,
    uint64_t step) {
  gather(picked, step);
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != mine && all[rank] < programs.size())
      throw Error(ErrorId::DataShape,
                  "in step " + std::to_string(step) + " rank " +
                      std::to_string(communicator->rank()) +
                      " has inputs for the program '" + programs[mine]->name +
                      "', rank " + std::to_string(rank) + " for '" +
                      programs[all[rank]]->name +
                      "'; give all ranks inputs of the same shapes");
}
