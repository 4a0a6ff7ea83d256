//===- VerifySteps.cpp - Programs make up a step --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/VerifySteps.h"

#include "plan/Grains.h"
#include "plan/Programs.h"
#include "plan/Target.h"
#include "plan/VerifyProgram.h"

#include <map>
#include <string>

using namespace fsdp;
using plan::PlanT;

std::set<int32_t> fsdp::inputsOf(const plan::ProgramT &program) {
  std::set<int32_t> inputs;
  for (const auto &binding : program.arguments)
    if (binding->input >= 0)
      inputs.insert(binding->input);
  return inputs;
}

void fsdp::verifyParts(const PlanT &plan) {
  std::map<Entry, std::map<std::string_view, std::set<int32_t>>>
      parts; // by entry and shapes
  for (const auto &program : plan.programs)
    parts[getEntry(*program)][program->shapes] = inputsOf(*program);
  uint64_t steps = plan.training->gradient_accumulation_steps;
  for (Entry entry : kStepParts) {
    bool isNeeded = steps > 2 || (steps == 2 && entry != kStepParts[1]);
    if (isNeeded ? parts[entry].empty() || parts[entry] != parts[kStepParts[0]]
                 : parts.count(entry) != 0)
      refusePlan("entry '" + getEntryName(entry) + "'",
                 "does not fit a step of " + std::to_string(steps) +
                     " micro-batches");
  }
  if (steps > 1 && parts.count(kTrain))
    refusePlan("entry '" + getEntryName(kTrain) + "'",
               "does not fit a step of " + std::to_string(steps) +
                   " micro-batches");
}

void fsdp::verifyGrains(const PlanT &plan) {
  const plan::TrainingT &training = *plan.training;
  if (training.grains == 0)
    return;
  uint64_t ranks = 1;
  for (const auto &axis : plan.mesh)
    ranks *= axis->size;
  if (training.grains > kMaxGrains || plan.data_parallel != ranks ||
      ranks > training.grains || !isForHost(plan))
    refusePlan("the training table",
               "has " + std::to_string(training.grains) +
                   " grains, which its ranks or device cannot compute");
  std::vector<GrainBlock> blocks = dealGrains(plan);
  if (blocks.size() != ranks ||
      getMostGrains(blocks) != training.gradient_accumulation_steps)
    refusePlan("the training table", "does not divide its " +
                                         std::to_string(training.grains) +
                                         " grains among its ranks");
}

void fsdp::verifyValidation(const PlanT &plan) {
  std::map<std::string_view, std::set<int32_t>> training; // by shapes
  for (const auto &program : plan.programs)
    if (program->kind == plan::ProgramKind::train)
      training[program->shapes] = inputsOf(*program);
  size_t count = 0;
  for (const auto &program : plan.programs) {
    if (program->kind != plan::ProgramKind::eval)
      continue;
    ++count;
    std::string where = "program '" + program->name + "'";
    auto trained = training.find(program->shapes);
    if (trained == training.end() || trained->second != inputsOf(*program))
      refusePlan(where, "has not the inputs of a program that trains");
    bool hasLoss = false;
    for (const auto &binding : program->results) {
      hasLoss |= binding->metric == "loss";
      if (binding->state >= 0)
        refusePlan(where, "changes a state");
    }
    if (!hasLoss)
      refusePlan(where, "has no loss");
  }
  if (plan.validation && count != training.size())
    refusePlan("entry '" + getEntryName(kValidation) + "'",
               "does not fit the programs that train");
}
