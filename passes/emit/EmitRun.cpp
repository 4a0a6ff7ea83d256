//===- EmitRun.cpp - What the artifact tells the run ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/EmitRun.h"

#include "passes/analysis/Entries.h"
#include "passes/analysis/Programs.h"
#include "passes/emit/PlanEnums.h"
#include "passes/emit/RunSettings.h"

using namespace mlir;
using namespace fsdp;

static void relocate(std::vector<std::string> &patterns,
                     const EmitOptions &options) {
  for (std::string &pattern : patterns)
    pattern = options.namePattern(pattern);
}

static bool trains(ModuleOp module) {
  return !llvm::all_of(getPrograms(module), isInference);
}

static void emitTraining(ModuleOp module, const StateTable &table,
                         plan::PlanT &plan) {
  plan.training = std::make_unique<plan::TrainingT>();
  plan::TrainingT &training = *plan.training;
  training.gradient_accumulation_steps =
      static_cast<uint32_t>(getMicroBatches(module));
  training.grains =
      static_cast<uint32_t>(getSetting<StepAttr>(module).getGrains());
  training.seed = static_cast<uint64_t>(getSeed(module));
  for (StateOp state : table.getStates()) {
    if (state.getRole() != Role::LearningRate)
      continue;
    // The base's is the first.
    if (auto lr = dyn_cast_or_null<FloatAttr>(state.getValueAttr());
        lr && training.rates.empty())
      training.lr = lr.getValueAsDouble();
    training.rates.push_back(table.getIndex(state));
  }
  // For inference it is nobody's.
  if (auto told = findSetting<OptimizerAttr>(module); told && trains(module)) {
    training.lr = told.getLr().getValueAsDouble();
    if (FloatAttr norm = told.getMaxGradNorm())
      training.max_grad_norm = norm.getValueAsDouble();
    training.norm_order = told.getNormOrder().getValueAsDouble();
  }
  if (auto policy = findSetting<OnNonFiniteAttr>(module))
    training.on_nonfinite = toPlan(policy.getValue());
  if (auto ema = findSetting<EmaAttr>(module); ema && trains(module))
    training.averages = fromSetting(ema);
  if (auto schedule = findSetting<ScheduleAttr>(module))
    training.schedule = fromSetting(schedule);
  training.device = getDevice(module).str();
}

void fsdp::emitRun(ModuleOp module, const StateTable &table,
                   const EmitOptions &options, plan::PlanT &plan) {
  emitTraining(module, table, plan);
  if (auto data = findSetting<DataAttr>(module)) {
    plan.data = fromSetting(data);
    relocate(plan.data->files, options);
  }
  if (auto validation = findSetting<ValidationAttr>(module)) {
    plan.validation = fromSetting(validation);
    relocate(plan.validation->files, options);
  }
  if (auto arithmetic = findSetting<ArithmeticAttr>(module))
    plan.arithmetic = fromSetting(arithmetic);
}
