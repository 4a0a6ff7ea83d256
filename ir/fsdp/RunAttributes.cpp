//===- RunAttributes.cpp - What a run is told, on the module --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/fsdp/Fsdp.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;

using EmitError = function_ref<InFlightDiagnostic()>;

/// A number of type f64, or none.
static LogicalResult verifyNumber(EmitError emitError, StringRef name,
                                  FloatAttr number, double least) {
  if (!number)
    return success();
  double value = number.getValueAsDouble();
  if (number.getType().isF64() && value >= least)
    return success();
  return emitError() << "expected '" << name << "' to be a number from "
                     << least << " (f64), found " << number;
}

static LogicalResult verifyCount(EmitError emitError, StringRef name,
                                 int64_t count) {
  if (count >= 0)
    return success();
  return emitError() << "expected '" << name
                     << "' to be a number from 0, found " << count;
}

static LogicalResult verifyTexts(EmitError emitError, StringRef name,
                                 ArrayAttr texts) {
  if (!texts || llvm::all_of(texts, llvm::IsaPred<StringAttr>))
    return success();
  return emitError() << "expected '" << name
                     << "' to be an array of strings, found " << texts;
}

LogicalResult TrainingAttr::verify(EmitError emitError, FloatAttr lr,
                                   FloatAttr maxGradNorm, FloatAttr normOrder) {
  if (!lr || !std::isfinite(lr.getValueAsDouble()))
    return emitError() << "expected 'lr' to be a finite number";
  if (maxGradNorm && !(maxGradNorm.getValueAsDouble() > 0 &&
                       std::isfinite(maxGradNorm.getValueAsDouble())))
    return emitError() << "expected 'max_grad_norm' to be a number above 0, "
                          "found "
                       << maxGradNorm;
  return success(
      succeeded(verifyNumber(emitError, "lr", lr, -HUGE_VAL)) &&
      succeeded(verifyNumber(emitError, "max_grad_norm", maxGradNorm, 0)) &&
      succeeded(verifyNumber(emitError, "norm_order", normOrder, 1)));
}

LogicalResult ScheduleAttr::verify(EmitError emitError, ScheduleKind,
                                   int64_t warmupSteps, FloatAttr warmupRatio,
                                   int64_t totalSteps, FloatAttr minLr) {
  return success(
      succeeded(verifyCount(emitError, "warmup_steps", warmupSteps)) &&
      succeeded(verifyNumber(emitError, "warmup_ratio", warmupRatio, 0)) &&
      succeeded(verifyCount(emitError, "total_steps", totalSteps)) &&
      succeeded(verifyNumber(emitError, "min_lr", minLr, 0)));
}

LogicalResult DataAttr::verify(EmitError emitError, ArrayAttr files,
                               TokenFormat, Type type, ArrayAttr inputs,
                               ArrayAttr targets, bool, int64_t seed,
                               int64_t epochs, bool) {
  if (type && !type.isUnsignedInteger(16) && !type.isUnsignedInteger(32))
    return emitError() << "expected 'type' to be ui16 or ui32, found " << type;
  return success(succeeded(verifyTexts(emitError, "files", files)) &&
                 succeeded(verifyTexts(emitError, "inputs", inputs)) &&
                 succeeded(verifyTexts(emitError, "targets", targets)) &&
                 succeeded(verifyCount(emitError, "seed", seed)) &&
                 succeeded(verifyCount(emitError, "epochs", epochs)));
}

LogicalResult ValidationAttr::verify(EmitError emitError, ArrayAttr files,
                                     int64_t every, int64_t batches) {
  if (!files || files.empty())
    return emitError() << "expected 'files' to name a file";
  return success(succeeded(verifyTexts(emitError, "files", files)) &&
                 succeeded(verifyCount(emitError, "every", every)) &&
                 succeeded(verifyCount(emitError, "batches", batches)));
}

int64_t fsdp::getSeed(ModuleOp module) {
  auto seed = module->getAttrOfType<IntegerAttr>(kSeedAttr);
  return seed ? seed.getInt() : 0;
}

template <typename Attr>
static LogicalResult verifyKind(Operation *op, NamedAttribute attr,
                                StringRef kind) {
  if (isa<ModuleOp>(op) && isa<Attr>(attr.getValue()))
    return success();
  return op->emitError("'") << attr.getName().getValue()
                            << "' expects a module and a #fsdp." << kind;
}

LogicalResult fsdp::verifyRunAttribute(Operation *op, NamedAttribute attr) {
  StringRef name = attr.getName().getValue();
  if (name == kTrainingAttr)
    return verifyKind<TrainingAttr>(op, attr, "training");
  if (name == kScheduleAttr)
    return verifyKind<ScheduleAttr>(op, attr, "schedule");
  if (name == kDataAttr)
    return verifyKind<DataAttr>(op, attr, "data");
  if (name == kValidationAttr)
    return verifyKind<ValidationAttr>(op, attr, "validation");
  if (name == kArithmeticAttr)
    return verifyKind<ArithmeticAttr>(op, attr, "arithmetic");
  if (name == kOnNonFiniteAttr)
    return verifyKind<OnNonFiniteAttr>(op, attr, "on_nonfinite");
  if (name != kSeedAttr)
    return success();
  auto seed = dyn_cast<IntegerAttr>(attr.getValue());
  if (isa<ModuleOp>(op) && seed && seed.getType().isInteger(64) &&
      seed.getInt() >= 0)
    return success();
  return op->emitError(
      "'fsdp.seed' expects a module and a number from 0 (i64)");
}
