//===- Annotate.cpp - The config's word to the run, on the module -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/Annotate.h"

#include "ir/fsdp/Fsdp.h"
#include "tools/fsdp-opt/Mode.h"

using namespace fsdp;
using namespace mlir;

namespace {
/// Absent where it says what absence does.
FloatAttr getNumber(MLIRContext *context, double value) {
  return value == 0 ? FloatAttr() : Builder(context).getF64FloatAttr(value);
}

ArrayAttr getTexts(MLIRContext *context,
                   const std::vector<std::string> &texts) {
  if (texts.empty())
    return {};
  std::vector<llvm::StringRef> all(texts.begin(), texts.end());
  return Builder(context).getStrArrayAttr(all);
}

Attribute getSchedule(MLIRContext *context, const plan::ScheduleT &schedule) {
  return ScheduleAttr::get(context, static_cast<ScheduleKind>(schedule.kind),
                           static_cast<int64_t>(schedule.warmup_steps),
                           getNumber(context, schedule.warmup_ratio),
                           static_cast<int64_t>(schedule.total_steps),
                           getNumber(context, schedule.min_lr));
}

Attribute getData(MLIRContext *context, const plan::DataT &data) {
  Type type;
  if (data.dtype != plan::DataT().dtype)
    type = IntegerType::get(context, 32, IntegerType::Unsigned);
  return DataAttr::get(context, getTexts(context, data.files),
                       static_cast<TokenFormat>(data.format), type,
                       getTexts(context, data.inputs),
                       getTexts(context, data.targets), data.shuffle,
                       static_cast<int64_t>(data.seed),
                       static_cast<int64_t>(data.epochs), data.drop_last);
}

Attribute getValidation(MLIRContext *context,
                        const plan::ValidationT &validation) {
  return ValidationAttr::get(context, getTexts(context, validation.files),
                             static_cast<int64_t>(validation.every),
                             static_cast<int64_t>(validation.batches));
}

Attribute getArithmetic(MLIRContext *context,
                        const plan::ArithmeticT &arithmetic) {
  return ArithmeticAttr::get(context, arithmetic.tf32,
                             arithmetic.reduced_precision_reduction,
                             arithmetic.fp16_accumulation);
}
} // namespace

void fsdp::annotate(ModuleOp module, const Config &config) {
  MLIRContext *context = module.getContext();
  auto set = [&](llvm::StringRef name, Attribute value) {
    if (value)
      module->setAttr(name, value);
    else
      module->removeAttr(name);
  };
  bool trains = !isForInference(module);
  set(kScheduleAttr, trains && config.schedule
                         ? getSchedule(context, *config.schedule)
                         : Attribute());
  set(kDataAttr,
      config.data ? getData(context, config.data->data) : Attribute());
  set(kValidationAttr, trains && config.validation
                           ? getValidation(context, *config.validation)
                           : Attribute());
  set(kArithmeticAttr, config.arithmetic
                           ? getArithmetic(context, *config.arithmetic)
                           : Attribute());
  // The program itself says whether updates are left out.
  set(kOnNonFiniteAttr,
      trains && config.onNonFinite == plan::NonFinite::ignore
          ? Attribute(OnNonFiniteAttr::get(context, OnNonFinite::Ignore))
          : Attribute());
}
