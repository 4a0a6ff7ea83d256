//===- Budget.cpp - What a rank may hold ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/auto/Budget.h"

#include "support/Error.h"
#include "support/Format.h"

#include "llvm/ADT/StringExtras.h"

using namespace fsdp;

uint64_t fsdp::getBudget(const Config &config, const Prediction &prediction) {
  auto all = double(prediction.capacity);
  if (!config.memoryBudget)
    return prediction.capacity;
  const MemoryBudget &budget = *config.memoryBudget;
  return uint64_t(budget.bytes > 0 ? budget.bytes : budget.share * all);
}

static std::string describeUse(const plan::MemoryT &memory) {
  std::string text;
  auto add = [&](const char *what, uint64_t bytes) {
    if (bytes != 0)
      text += (text.empty() ? "" : ", ") + std::string(what) + " " +
              formatBytes(bytes);
  };
  add("parameters", memory.params);
  add("optimizer", memory.optimizer);
  add("gradients", memory.grads);
  add("buffers", memory.buffers);
  add("gathered parameters", memory.gathered);
  add("activations", memory.activations);
  add("inputs", memory.inputs);
  return text;
}

/// Where the most is in use, as the simulation saw it.
static std::string describePlace(const plan::PlanT &plan,
                                 const Prediction &prediction) {
  const PredictedUse *highest = nullptr;
  const plan::ProgramT *program = nullptr;
  for (const PredictedProgram &each : prediction.programs)
    for (const PredictedUse &use : each.uses)
      if (!highest || use.bytes > highest->bytes) {
        highest = &use;
        program = plan.programs[each.program].get();
      }
  if (!highest)
    return "";
  int32_t at = program->instructions[highest->instruction]->at;
  return at < 0 ? "" : ", at " + plan.locations[size_t(at)];
}

std::string fsdp::describeHeld(const plan::PlanT &plan,
                               const Prediction &prediction) {
  std::string text = "planned " + formatBytes(prediction.planned) +
                     " (at the highest use: " + describeUse(*plan.memory) +
                     describePlace(plan, prediction) + ")";
  if (prediction.scratch != 0)
    text += ", kernels' temporaries at most " + formatBytes(prediction.scratch);
  if (!prediction.scratchUnknown.empty())
    text += " but for what is unknown of " +
            llvm::join(prediction.scratchUnknown, ", ");
  text += ", context and libraries " + formatBytes(prediction.reserved);
  if (prediction.communicators != 0)
    text += ", communicators' buffers " + formatBytes(prediction.communicators);
  return text;
}

void fsdp::checkBudget(const plan::PlanT &plan, const Prediction &prediction,
                       const Config &config) {
  uint64_t budget = getBudget(config, prediction);
  if (prediction.held() <= budget)
    return;
  throw Error(ErrorId::BudgetTooSmall,
              "expected a step that holds at most " + formatBytes(budget) +
                  " of the device" +
                  (config.memoryBudget ? " (memory_budget at " +
                                             config.memoryBudget->place + ")"
                                       : "") +
                  ", found " + formatBytes(prediction.held()) + ": " +
                  describeHeld(plan, prediction) +
                  (config.planner == Planner::Default
                       ? "; schedule: auto looks for one that fits"
                       : ""));
}
