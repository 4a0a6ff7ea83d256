//===- RunSettings.cpp - What a run is told, in both forms ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/RunSettings.h"

#include "passes/emit/PlanEnums.h"
#include "passes/emit/Types.h"
#include "plan/Schedule.h"

using namespace mlir;
using namespace fsdp;

/// Absent where it says what absence does.
static FloatAttr toNumber(MLIRContext *context, double value) {
  return value == 0 ? FloatAttr() : getReal(context, value);
}

static double fromNumber(FloatAttr number) {
  return number ? number.getValueAsDouble() : 0;
}

static std::vector<std::string> fromTexts(ArrayAttr texts) {
  SmallVector<StringRef> all = getTexts(texts);
  return {all.begin(), all.end()};
}

/// Those that are given; null if there is none.
static DictionaryAttr toNumbers(MLIRContext *context,
                                const plan::ScheduleT &schedule) {
  Builder builder(context);
  SmallVector<NamedAttribute> all;
  for (const ScheduleNumberFacts &each : getScheduleNumbers())
    if (isGiven(schedule, each.number))
      all.push_back(builder.getNamedAttr(
          StringRef(each.name),
          builder.getF64FloatAttr(getNumber(schedule, each.number))));
  return all.empty() ? DictionaryAttr() : builder.getDictionaryAttr(all);
}

ScheduleAttr fsdp::toSetting(MLIRContext *context,
                             const plan::ScheduleT &schedule) {
  return ScheduleAttr::get(context, ScheduleKind(schedule.kind),
                           static_cast<int64_t>(schedule.warmup_steps),
                           toNumber(context, schedule.warmup_ratio),
                           static_cast<int64_t>(schedule.total_steps),
                           toNumber(context, schedule.min_lr),
                           toNumber(context, schedule.min_lr_ratio),
                           toNumbers(context, schedule));
}

std::unique_ptr<plan::ScheduleT> fsdp::fromSetting(ScheduleAttr schedule) {
  auto result = std::make_unique<plan::ScheduleT>();
  result->kind = static_cast<uint8_t>(schedule.getKind());
  result->warmup_steps = static_cast<uint64_t>(schedule.getWarmupSteps());
  result->warmup_ratio = fromNumber(schedule.getWarmupRatio());
  result->total_steps = static_cast<uint64_t>(schedule.getTotalSteps());
  result->min_lr = fromNumber(schedule.getMinLr());
  result->min_lr_ratio = fromNumber(schedule.getMinLrRatio());
  for (const ScheduleNumberFacts &each : getScheduleNumbers())
    if (DictionaryAttr numbers = schedule.getNumbers())
      if (auto value = numbers.getAs<FloatAttr>(StringRef(each.name)))
        setNumber(*result, each.number, value.getValueAsDouble());
  return result;
}

std::unique_ptr<plan::AveragesT> fsdp::fromSetting(EmaAttr ema) {
  auto result = std::make_unique<plan::AveragesT>();
  result->decay = ema.getDecay().getValueAsDouble();
  result->after = static_cast<uint64_t>(ema.getAfter());
  result->every = static_cast<uint64_t>(ema.getEvery());
  result->warmup = toPlan(ema.getWarmup());
  result->gamma = ema.getGamma().getValueAsDouble();
  result->power = ema.getPower().getValueAsDouble();
  return result;
}

/// Absent where it is empty.
static StringAttr toName(MLIRContext *context, const std::string &name) {
  return name.empty() ? StringAttr() : StringAttr::get(context, name);
}

static std::string fromName(StringAttr name) { return name ? name.str() : ""; }

static ArrayAttr getPadding(MLIRContext *context, const plan::DataT &data) {
  SmallVector<Attribute> all;
  for (const auto &padding : data.pad)
    all.push_back(PaddingAttr::get(context,
                                   StringAttr::get(context, padding->input),
                                   getReal(context, padding->value)));
  return all.empty() ? ArrayAttr() : ArrayAttr::get(context, all);
}

DataAttr fsdp::toSetting(MLIRContext *context, const plan::DataT &data) {
  Type type;
  if (data.dtype != plan::DataT().dtype)
    type = IntegerType::get(context, 32, IntegerType::Unsigned);
  return DataAttr::get(
      context, getTextsAttr(context, data.files),
      fromPlan<TokenFormat>(data.format), type,
      getTextsAttr(context, data.inputs), getTextsAttr(context, data.targets),
      data.shuffle, static_cast<int64_t>(data.seed),
      static_cast<int64_t>(data.epochs), data.drop_last,
      getPadding(context, data), static_cast<int64_t>(data.length_pool),
      static_cast<int64_t>(data.length_group), toName(context, data.labels),
      toName(context, data.label_count), data.shifts_labels);
}

std::unique_ptr<plan::DataT> fsdp::fromSetting(DataAttr data) {
  auto result = std::make_unique<plan::DataT>();
  result->files = fromTexts(data.getFiles());
  result->format = toPlan(data.getFormat());
  if (data.getType())
    result->dtype = *toDType(data.getType());
  result->inputs = fromTexts(data.getInputs());
  result->targets = fromTexts(data.getTargets());
  result->shuffle = data.getShuffle();
  result->seed = static_cast<uint64_t>(data.getSeed());
  result->epochs = static_cast<uint64_t>(data.getEpochs());
  result->drop_last = data.getDropLast();
  if (ArrayAttr all = data.getPad())
    for (auto each : all.getAsRange<PaddingAttr>()) {
      auto &padding =
          result->pad.emplace_back(std::make_unique<plan::PaddingT>());
      padding->input = each.getInput().str();
      padding->value = each.getValue().getValueAsDouble();
    }
  result->length_pool = static_cast<uint64_t>(data.getLengthPool());
  result->length_group = static_cast<uint64_t>(data.getLengthGroup());
  result->labels = fromName(data.getLabels());
  result->label_count = fromName(data.getLabelCount());
  result->shifts_labels = data.getShiftsLabels();
  return result;
}

ValidationAttr fsdp::toSetting(MLIRContext *context,
                               const plan::ValidationT &validation) {
  return ValidationAttr::get(context, getTextsAttr(context, validation.files),
                             static_cast<int64_t>(validation.every),
                             static_cast<int64_t>(validation.batches),
                             validation.averaged);
}

std::unique_ptr<plan::ValidationT>
fsdp::fromSetting(ValidationAttr validation) {
  auto result = std::make_unique<plan::ValidationT>();
  result->files = fromTexts(validation.getFiles());
  result->every = static_cast<uint64_t>(validation.getEvery());
  result->batches = static_cast<uint64_t>(validation.getBatches());
  result->averaged = validation.getAveraged();
  return result;
}

ArithmeticAttr fsdp::toSetting(MLIRContext *context,
                               const plan::ArithmeticT &arithmetic) {
  return ArithmeticAttr::get(
      context, arithmetic.tf32, arithmetic.reduced_precision_reduction,
      arithmetic.fp16_accumulation, arithmetic.deterministic);
}

std::unique_ptr<plan::ArithmeticT>
fsdp::fromSetting(ArithmeticAttr arithmetic) {
  auto result = std::make_unique<plan::ArithmeticT>();
  result->tf32 = arithmetic.getTf32();
  result->reduced_precision_reduction =
      arithmetic.getReducedPrecisionReduction();
  result->fp16_accumulation = arithmetic.getFp16Accumulation();
  result->deterministic = arithmetic.getDeterministic();
  return result;
}
