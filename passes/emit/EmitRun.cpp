//===- EmitRun.cpp - What the artifact tells the run ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/EmitRun.h"

#include "passes/emit/Types.h"

using namespace mlir;
using namespace fsdp;

template <typename To, typename From>
static constexpr bool sameNumber(From from, To to) {
  return static_cast<int>(from) == static_cast<int>(to);
}
static_assert(
    sameNumber(ScheduleKind::Constant, plan::ScheduleKind::constant) &&
        sameNumber(ScheduleKind::Linear, plan::ScheduleKind::linear) &&
        sameNumber(ScheduleKind::Cosine, plan::ScheduleKind::cosine) &&
        sameNumber(ScheduleKind::Cosine, plan::ScheduleKind::MAX),
    "schedules of the dialect and of the artifact have one numbering");
static_assert(sameNumber(OnNonFinite::Stop, plan::NonFinite::stop) &&
                  sameNumber(OnNonFinite::Skip, plan::NonFinite::skip) &&
                  sameNumber(OnNonFinite::Ignore, plan::NonFinite::ignore) &&
                  sameNumber(OnNonFinite::Ignore, plan::NonFinite::MAX),
              "policies of the dialect and of the artifact have one numbering");
static_assert(
    sameNumber(TokenFormat::Recognized, plan::TokenFormat::recognized) &&
        sameNumber(TokenFormat::Raw, plan::TokenFormat::raw) &&
        sameNumber(TokenFormat::LlmC, plan::TokenFormat::llm_c) &&
        sameNumber(TokenFormat::Megatron, plan::TokenFormat::megatron) &&
        sameNumber(TokenFormat::Megatron, plan::TokenFormat::MAX),
    "token formats of the dialect and of the artifact have one numbering");

static double getNumber(FloatAttr number, double otherwise) {
  return number ? number.getValueAsDouble() : otherwise;
}

static std::vector<std::string> getTexts(ArrayAttr texts) {
  std::vector<std::string> all;
  if (texts)
    for (auto text : texts.getAsRange<StringAttr>())
      all.push_back(text.str());
  return all;
}

static std::vector<std::string> getFiles(ArrayAttr patterns,
                                         const EmitOptions &options) {
  std::vector<std::string> files = getTexts(patterns);
  for (std::string &file : files)
    file = options.namePattern(file);
  return files;
}

/// Whether an optimizer leaves updates out.
static bool skipsUpdates(ModuleOp module) {
  return module
      .walk([](Operation *op) {
        bool skips = false;
        if (auto adamw = dyn_cast<AdamWOp>(op))
          skips = bool(adamw.getFoundInf());
        else if (auto adam = dyn_cast<AdamOp>(op))
          skips = bool(adam.getFoundInf());
        else if (auto sgd = dyn_cast<SgdOp>(op))
          skips = bool(sgd.getFoundInf());
        return skips ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

static void emitSchedule(ScheduleAttr schedule, plan::TrainingT &training) {
  training.schedule = std::make_unique<plan::ScheduleT>();
  plan::ScheduleT &result = *training.schedule;
  result.kind = static_cast<plan::ScheduleKind>(schedule.getKind());
  result.warmup_steps = static_cast<uint64_t>(schedule.getWarmupSteps());
  result.warmup_ratio = getNumber(schedule.getWarmupRatio(), 0);
  result.total_steps = static_cast<uint64_t>(schedule.getTotalSteps());
  result.min_lr = getNumber(schedule.getMinLr(), 0);
}

static void emitTraining(ModuleOp module, const StateTable &table,
                         plan::PlanT &plan) {
  plan.training = std::make_unique<plan::TrainingT>();
  plan::TrainingT &training = *plan.training;
  training.gradient_accumulation_steps =
      static_cast<uint32_t>(getMicroBatches(module));
  training.seed = static_cast<uint64_t>(getSeed(module));
  for (StateOp state : table.getStates()) {
    if (isLearningRate(state))
      training.rates.push_back(table.getIndex(state));
    if (state.getSymName() == kLearningRate)
      if (auto lr = dyn_cast_or_null<FloatAttr>(state.getInitAttr()))
        training.lr = lr.getValueAsDouble();
  }
  if (auto told = module->getAttrOfType<TrainingAttr>(kTrainingAttr)) {
    training.lr = told.getLr().getValueAsDouble();
    training.max_grad_norm = getNumber(told.getMaxGradNorm(), -1);
    training.norm_order = getNumber(told.getNormOrder(), 2);
  }
  if (auto policy = module->getAttrOfType<OnNonFiniteAttr>(kOnNonFiniteAttr))
    training.on_nonfinite = static_cast<plan::NonFinite>(policy.getValue());
  else if (skipsUpdates(module))
    training.on_nonfinite = plan::NonFinite::skip;
  if (auto schedule = module->getAttrOfType<ScheduleAttr>(kScheduleAttr))
    emitSchedule(schedule, training);
  training.device = getDevice(module).str();
}

static void emitData(DataAttr data, const EmitOptions &options,
                     plan::PlanT &plan) {
  plan.data = std::make_unique<plan::DataT>();
  plan::DataT &result = *plan.data;
  result.files = getFiles(data.getFiles(), options);
  result.format = static_cast<plan::TokenFormat>(data.getFormat());
  if (data.getType())
    result.dtype = *toDType(data.getType());
  result.inputs = getTexts(data.getInputs());
  result.targets = getTexts(data.getTargets());
  result.shuffle = data.getShuffle();
  result.seed = static_cast<uint64_t>(data.getSeed());
  result.epochs = static_cast<uint64_t>(data.getEpochs());
  result.drop_last = data.getDropLast();
}

void fsdp::emitRun(ModuleOp module, const StateTable &table,
                   const EmitOptions &options, plan::PlanT &plan) {
  emitTraining(module, table, plan);
  if (auto data = module->getAttrOfType<DataAttr>(kDataAttr))
    emitData(data, options, plan);
  if (auto told = module->getAttrOfType<ValidationAttr>(kValidationAttr)) {
    plan.validation = std::make_unique<plan::ValidationT>();
    plan.validation->files = getFiles(told.getFiles(), options);
    plan.validation->every = static_cast<uint64_t>(told.getEvery());
    plan.validation->batches = static_cast<uint64_t>(told.getBatches());
  }
  if (auto told = module->getAttrOfType<ArithmeticAttr>(kArithmeticAttr)) {
    plan.arithmetic = std::make_unique<plan::ArithmeticT>();
    plan.arithmetic->tf32 = told.getTf32();
    plan.arithmetic->reduced_precision_reduction =
        told.getReducedPrecisionReduction();
    plan.arithmetic->fp16_accumulation = told.getFp16Accumulation();
  }
}
