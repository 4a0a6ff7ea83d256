//===- Programs.cpp - The programs of an artifact -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/session/Programs.h"

#include "plan/Entry.h"
#include "support/Error.h"

#include <algorithm>
#include <numeric>

using namespace fsdp;

std::vector<const plan::ProgramT *>
fsdp::findPrograms(const plan::PlanT &plan,
                   std::span<const char *const> entries,
                   const std::string &wanted) {
  std::string names;
  for (std::string_view entry : entries) {
    std::vector<const plan::ProgramT *> programs;
    for (const auto &program : plan.programs) {
      if (entryOf(program->name) != entry)
        continue;
      names += (names.empty() ? "" : ", ") + program->name;
      if (wanted.empty() || program->name == wanted ||
          bindingOf(program->name) == wanted)
        programs.push_back(program.get());
    }
    if (!programs.empty())
      return programs;
    if (!names.empty())
      throw Error(ErrorId::DataShape, "the artifact has no program '" + wanted +
                                          "'; it has " + names);
  }
  for (const char *entry : entries)
    names += std::string(names.empty() ? "neither '" : " nor '") + entry + "'";
  throw Error(ErrorId::RuntimeUnsupported,
              "the artifact has " + names + "; compile a model with --config");
}

StepPrograms fsdp::findStep(const plan::PlanT &plan,
                            const std::string &wanted) {
  StepPrograms step;
  step.microBatches = plan.training->gradient_accumulation_steps;
  if (step.microBatches == 1) {
    static constexpr const char *kEntries[] = {"train/step", "infer/step"};
    step.parts.push_back(findPrograms(plan, kEntries, wanted));
    return step;
  }
  std::string binding = wanted;
  if (wanted.find('/') != std::string::npos)
    binding = wanted.substr(entryOf(wanted).size());
  else if (!wanted.empty())
    binding = "[" + wanted + "]";
  for (std::string_view entry : kStepParts) {
    if (entry == kStepParts[1] && step.microBatches == 2)
      continue;
    std::string name(entry);
    const char *entries[] = {name.c_str()};
    std::vector<const plan::ProgramT *> programs =
        findPrograms(plan, entries, wanted.empty() ? "" : name + binding);
    // In the order of the first part's; the plan was verified.
    if (!step.parts.empty())
      std::sort(programs.begin(), programs.end(),
                [&](const plan::ProgramT *a, const plan::ProgramT *b) {
                  auto position = [&](const plan::ProgramT *program) {
                    return std::find_if(step.parts[0].begin(),
                                        step.parts[0].end(),
                                        [&](const plan::ProgramT *first) {
                                          return bindingOf(first->name) ==
                                                 bindingOf(program->name);
                                        });
                  };
                  return position(a) < position(b);
                });
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
      if (entryOf(program->name) == kValidationEntry &&
          bindingOf(program->name) == bindingOf(trains->name))
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

void ProgramAgreement::check(
    size_t picked, const std::vector<const plan::ProgramT *> &programs,
    uint64_t step) {
  mine = picked;
  std::fill(all.begin(), all.end(), mine); // for back ends that move no data
  GatherMember member{&mine, all.data(), sizeof(mine)};
  communicator->wait(communicator->startAllGather(
      {&member, 1}, {"all_gather", "programs", step}));
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
