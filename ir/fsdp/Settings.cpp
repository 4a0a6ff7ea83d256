//===- Settings.cpp - What compile and run are told, on the module --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/fsdp/Fsdp.h"

#include "mlir/AsmParser/AsmParser.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace fsdp;

using EmitError = function_ref<InFlightDiagnostic()>;

FloatAttr fsdp::getReal(MLIRContext *context, double value) {
  return Builder(context).getF64FloatAttr(value);
}

FailureOr<FloatAttr> fsdp::parseReal(AsmParser &parser) {
  double value;
  if (parser.parseFloat(value))
    return failure();
  return getReal(parser.getContext(), value);
}

//===----------------------------------------------------------------------===//
// Parts of settings
//===----------------------------------------------------------------------===//

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

/// Patterns, of which there has to be one.
static LogicalResult verifyPatterns(EmitError emitError, StringRef name,
                                    ArrayAttr patterns) {
  auto isPattern = [](Attribute each) {
    auto text = dyn_cast<StringAttr>(each);
    return text && !text.getValue().empty();
  };
  if (patterns && !patterns.empty() && llvm::all_of(patterns, isPattern))
    return success();
  return emitError() << "expected '" << name
                     << "' to be patterns of names, found " << patterns;
}

template <typename Attr>
static LogicalResult verifyList(EmitError emitError, StringRef name,
                                ArrayAttr list) {
  if (!list || llvm::all_of(list, llvm::IsaPred<Attr>))
    return success();
  return emitError() << "expected '" << name << "' to be an array of #"
                     << Attr::name << ", found " << list;
}

//===----------------------------------------------------------------------===//
// Capture
//===----------------------------------------------------------------------===//

LogicalResult PrecisionRuleAttr::verify(EmitError emitError, ArrayAttr modules,
                                        PrecisionAttr policy) {
  if (policy.getRules())
    return emitError() << "expected a policy without rules of its own, found "
                       << policy;
  return verifyPatterns(emitError, "modules", modules);
}

LogicalResult PrecisionAttr::verify(EmitError emitError, StringAttr, StringAttr,
                                    StringAttr, bool, ArrayAttr rules) {
  return verifyList<PrecisionRuleAttr>(emitError, "rules", rules);
}

//===----------------------------------------------------------------------===//
// Shards and buckets
//===----------------------------------------------------------------------===//

LogicalResult DimRuleAttr::verify(EmitError emitError, ArrayAttr params,
                                  std::optional<int64_t> dim) {
  return success(succeeded(verifyPatterns(emitError, "params", params)) &&
                 succeeded(verifyCount(emitError, "dim", dim.value_or(0))));
}

LogicalResult ShardsAttr::verify(EmitError emitError, int64_t world,
                                 int64_t replicate, ArrayAttr ignore, bool,
                                 ArrayAttr dims) {
  if (world < 1)
    return emitError() << "expected a world size of at least 1, found "
                       << world;
  if (replicate < 1 || world % replicate != 0)
    return emitError() << "expected a number of replicas that divides the "
                       << world << " ranks, found " << replicate;
  return success(succeeded(verifyTexts(emitError, "ignore", ignore)) &&
                 succeeded(verifyList<DimRuleAttr>(emitError, "dims", dims)));
}

LogicalResult ParallelRuleAttr::verify(EmitError emitError, ArrayAttr modules,
                                       ParallelStyle) {
  return verifyPatterns(emitError, "modules", modules);
}

LogicalResult ParallelAttr::verify(EmitError emitError, int64_t tp, int64_t cp,
                                   ArrayAttr plan, bool, bool, bool) {
  if (tp < 1 || cp < 1)
    return emitError() << "expected 'tp' and 'cp' of at least 1, found " << tp
                       << " and " << cp;
  return verifyList<ParallelRuleAttr>(emitError, "plan", plan);
}

LogicalResult BucketAttr::verify(EmitError emitError, StringAttr name,
                                 ArrayAttr patterns) {
  if (name.getValue().empty())
    return emitError() << "expected a bucket with a name";
  return verifyPatterns(emitError, "patterns", patterns);
}

static bool isNarrowWire(StringAttr name) {
  return name == "bfloat16" || name == "float8";
}

LogicalResult RuleAttr::verify(EmitError emitError, ArrayAttr buckets,
                               std::optional<int64_t> reshard,
                               std::optional<BucketLayout>,
                               std::optional<int64_t> prefetch,
                               StringAttr reduceWire) {
  if (reduceWire && reduceWire != "float32" && !isNarrowWire(reduceWire))
    return emitError() << "expected 'bfloat16', 'float8' or 'float32' to send "
                          "gradients in, found "
                       << reduceWire;
  return success(
      succeeded(verifyPatterns(emitError, "buckets", buckets)) &&
      succeeded(verifyCount(emitError, "reshard", reshard.value_or(0))) &&
      succeeded(verifyCount(emitError, "prefetch", prefetch.value_or(0))));
}

LogicalResult BucketsAttr::verify(EmitError emitError, BucketPolicy,
                                  ArrayAttr classes, int64_t minParams,
                                  ArrayAttr named, ReshardMode,
                                  int64_t reshardRanks, BucketLayout,
                                  ArrayAttr rules) {
  return success(
      succeeded(verifyTexts(emitError, "classes", classes)) &&
      succeeded(verifyCount(emitError, "min_params", minParams)) &&
      succeeded(verifyList<BucketAttr>(emitError, "named", named)) &&
      succeeded(verifyCount(emitError, "reshard_ranks", reshardRanks)) &&
      succeeded(verifyList<RuleAttr>(emitError, "rules", rules)));
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

LogicalResult StepAttr::verify(EmitError emitError, int64_t microBatches,
                               GradientSync, bool, FloatAttr divideFactor, bool,
                               bool, int64_t prefetch, int64_t lossChunks,
                               int64_t reductionsInFlight,
                               StringAttr reduceWire, int64_t grains, bool) {
  if (grains < 0 || (grains != 0 && grains < microBatches))
    return emitError() << "expected at least as many grains as the "
                       << microBatches << " micro-batches of a rank, found "
                       << grains;
  if (reduceWire && !isNarrowWire(reduceWire))
    return emitError() << "expected 'bfloat16' or 'float8' to send gradients "
                          "in, found "
                       << reduceWire;
  if (microBatches < 1)
    return emitError() << "expected at least 1 micro-batch a step, found "
                       << microBatches;
  if (divideFactor && !(std::isfinite(divideFactor.getValueAsDouble()) &&
                        divideFactor.getValueAsDouble() > 0))
    return emitError() << "expected a finite factor above zero to divide "
                          "gradients by, found "
                       << divideFactor;
  if (reductionsInFlight < 1)
    return emitError() << "expected 'reductions_in_flight' to be a number from "
                          "1, found "
                       << reductionsInFlight;
  return success(succeeded(verifyCount(emitError, "prefetch", prefetch)) &&
                 succeeded(verifyCount(emitError, "loss_chunks", lossChunks)));
}

LogicalResult Float8Attr::verify(EmitError emitError, ArrayAttr modules,
                                 Float8Recipe recipe, bool allGather, bool) {
  if (allGather && recipe != Float8Recipe::Tensorwise)
    return emitError() << "expected the recipe 'tensorwise' with 'all_gather', "
                          "found '"
                       << stringifyFloat8Recipe(recipe)
                       << "', whose scales are not one a parameter";
  return verifyTexts(emitError, "modules", modules);
}

BlockForm QuantizeAttr::getForm() const {
  return {BlockKind(getKind()), getBlockSize(), getDoubleQuant()};
}

LogicalResult QuantizeAttr::verify(EmitError emitError, ArrayAttr modules,
                                   QuantizedKind kind, ArrayAttr skip,
                                   int64_t blockSize, bool isDouble) {
  if (!BlockForm{BlockKind(kind), blockSize, isDouble}.isValid())
    return emitError() << "expected blocks of 32, 64 ... 4096 elements, found "
                       << blockSize;
  return success(succeeded(verifyTexts(emitError, "modules", modules)) &&
                 succeeded(verifyTexts(emitError, "skip", skip)));
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

LogicalResult RecomputeAttr::verify(EmitError emitError, RecomputePolicy policy,
                                    int64_t every, ArrayAttr modules,
                                    ArrayAttr save, ArrayAttr also) {
  if (every < 1)
    return emitError() << "expected to recompute every n-th module for an n of "
                          "at least 1, found "
                       << every;
  if (save && policy != RecomputePolicy::Selective)
    return emitError() << "expected the policy 'selective' with operators to "
                          "save, found '"
                       << stringifyRecomputePolicy(policy) << "'";
  if (also)
    for (Attribute each : also)
      if (auto told = dyn_cast<RecomputeAttr>(each); told && told.getAlso())
        return emitError()
               << "expected 'also' without another one in it, found " << told;
  return success(succeeded(verifyTexts(emitError, "modules", modules)) &&
                 succeeded(verifyTexts(emitError, "save", save)) &&
                 succeeded(verifyList<RecomputeAttr>(emitError, "also", also)));
}

LogicalResult OffloadAttr::verify(EmitError emitError, bool, bool,
                                  ArrayAttr activations, bool) {
  return verifyTexts(emitError, "activations", activations);
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

LogicalResult ParamGroupAttr::verify(EmitError emitError, ArrayAttr params,
                                     FloatAttr lr, DictionaryAttr numbers) {
  return success(succeeded(verifyPatterns(emitError, "params", params)) &&
                 succeeded(verifyNumber(emitError, "lr", lr, -HUGE_VAL)) &&
                 succeeded(verifyNumbers(emitError, numbers)));
}

LogicalResult OptimizerAttr::verify(EmitError emitError, OptimizerKind,
                                    FloatAttr lr, DictionaryAttr numbers,
                                    FloatAttr maxGradNorm, FloatAttr normOrder,
                                    ArrayAttr groups, bool, StateDType, bool) {
  if (!std::isfinite(lr.getValueAsDouble()))
    return emitError() << "expected 'lr' to be a finite number, found " << lr;
  if (maxGradNorm && !(maxGradNorm.getValueAsDouble() > 0 &&
                       std::isfinite(maxGradNorm.getValueAsDouble())))
    return emitError() << "expected a positive norm to clip to, found "
                       << maxGradNorm;
  if (double order = normOrder.getValueAsDouble();
      order != 1 && order != 2 && order != HUGE_VAL)
    return emitError() << "expected a norm of order 1, 2 or inf, found "
                       << normOrder;
  return success(
      succeeded(verifyNumbers(emitError, numbers)) &&
      succeeded(verifyList<ParamGroupAttr>(emitError, "groups", groups)));
}

LogicalResult LossScaleAttr::verify(EmitError emitError, int64_t interval,
                                    FloatAttr growth, FloatAttr backoff) {
  double grown = growth.getValueAsDouble(), cut = backoff.getValueAsDouble();
  if (!(grown > 1) || !(cut > 0) || !(cut < 1))
    return emitError() << "expected a loss scale that grows by a factor above "
                          "1 and is cut by one between 0 and 1, found "
                       << growth << " and " << backoff;
  return verifyCount(emitError, "interval", interval);
}

LogicalResult EmaAttr::verify(EmitError emitError, FloatAttr decay,
                              int64_t after, int64_t every, EmaWarmup,
                              FloatAttr gamma, FloatAttr power, bool) {
  if (double value = decay.getValueAsDouble(); !(value >= 0) || !(value <= 1))
    return emitError() << "expected a decay from 0 to 1, found " << decay;
  if (every < 1)
    return emitError() << "expected averages of every n-th update for an n of "
                          "at least 1, found "
                       << every;
  for (FloatAttr number : {gamma, power})
    if (!(number.getValueAsDouble() > 0) ||
        !std::isfinite(number.getValueAsDouble()))
      return emitError() << "expected a warm-up by numbers above 0, found "
                         << number;
  return verifyCount(emitError, "after", after);
}

LogicalResult ReportedNormsAttr::verify(EmitError emitError, bool gradients,
                                        bool weights, bool updates, bool) {
  if (gradients || weights || updates)
    return success();
  return emitError() << "expected norms of gradients, weights or updates, "
                        "found none";
}

LogicalResult NoiseAttr::verify(EmitError emitError, FloatAttr alpha,
                                DenseI64ArrayAttr sites) {
  if (alpha.getValueAsDouble() > 0 && !sites.empty())
    return success();
  return emitError() << "expected noise above 0 at some site, found " << alpha
                     << " at " << sites;
}

//===----------------------------------------------------------------------===//
// The run
//===----------------------------------------------------------------------===//

LogicalResult ScheduleAttr::verify(EmitError emitError, ScheduleKind,
                                   int64_t warmupSteps, FloatAttr warmupRatio,
                                   int64_t totalSteps, FloatAttr minLr,
                                   FloatAttr minRatio, DictionaryAttr numbers) {
  return success(
      succeeded(verifyCount(emitError, "warmup_steps", warmupSteps)) &&
      succeeded(verifyNumber(emitError, "warmup_ratio", warmupRatio, 0)) &&
      succeeded(verifyCount(emitError, "total_steps", totalSteps)) &&
      succeeded(verifyNumber(emitError, "min_lr", minLr, 0)) &&
      succeeded(verifyNumber(emitError, "min_lr_ratio", minRatio, 0)) &&
      succeeded(verifyScheduleNumbers(emitError, numbers)));
}

LogicalResult AdapterSettingsAttr::verify(EmitError emitError, int64_t rank,
                                          FloatAttr alpha, FloatAttr dropout,
                                          bool, AdapterBias) {
  if (rank < 1 || rank > std::numeric_limits<uint32_t>::max())
    return emitError() << "expected a rank of adapters from 1, found " << rank;
  double share = dropout.getValueAsDouble();
  if (!(share >= 0) || !(share < 1))
    return emitError() << "expected a dropout of adapters from 0 and below 1, "
                          "found "
                       << dropout;
  return verifyNumber(emitError, "alpha", alpha, 0);
}

LogicalResult PaddingAttr::verify(EmitError emitError, StringAttr input,
                                  FloatAttr value) {
  if (!input || input.getValue().empty())
    return emitError() << "expected 'input' to be a name, found " << input;
  return verifyNumber(emitError, "value", value,
                      -std::numeric_limits<double>::max());
}

LogicalResult DataAttr::verify(EmitError emitError, ArrayAttr files,
                               TokenFormat, Type type, ArrayAttr inputs,
                               ArrayAttr targets, bool, int64_t seed,
                               int64_t epochs, bool, ArrayAttr pad,
                               int64_t pool, int64_t group, StringAttr,
                               StringAttr, bool) {
  if (group < 1 || pool % group != 0)
    return emitError() << "expected 'length_pool' to be groups of "
                          "'length_group' rows, found "
                       << pool << " and " << group;
  if (type && !type.isUnsignedInteger(16) && !type.isUnsignedInteger(32))
    return emitError() << "expected 'type' to be ui16 or ui32, found " << type;
  return success(succeeded(verifyTexts(emitError, "files", files)) &&
                 succeeded(verifyTexts(emitError, "inputs", inputs)) &&
                 succeeded(verifyTexts(emitError, "targets", targets)) &&
                 succeeded(verifyCount(emitError, "seed", seed)) &&
                 succeeded(verifyCount(emitError, "epochs", epochs)) &&
                 succeeded(verifyList<PaddingAttr>(emitError, "pad", pad)) &&
                 succeeded(verifyCount(emitError, "length_pool", pool)));
}

LogicalResult ValidationAttr::verify(EmitError emitError, ArrayAttr files,
                                     int64_t every, int64_t batches, bool) {
  if (files && files.empty())
    return emitError() << "expected 'files' to name a file, or to be absent";
  return success(succeeded(verifyTexts(emitError, "files", files)) &&
                 succeeded(verifyCount(emitError, "every", every)) &&
                 succeeded(verifyCount(emitError, "batches", batches)));
}

SmallVector<StringRef> fsdp::getTexts(ArrayAttr texts) {
  SmallVector<StringRef> all;
  if (texts)
    for (auto text : texts.getAsRange<StringAttr>())
      all.push_back(text.getValue());
  return all;
}

ArrayAttr fsdp::getTextsAttr(MLIRContext *context,
                             ArrayRef<std::string> texts) {
  if (texts.empty())
    return {};
  return Builder(context).getStrArrayAttr(
      SmallVector<StringRef>(texts.begin(), texts.end()));
}

int64_t fsdp::getSeed(ModuleOp module) {
  auto seed = module->getAttrOfType<IntegerAttr>(kSeedAttr);
  return seed ? seed.getInt() : 0;
}

//===----------------------------------------------------------------------===//
// On the module
//===----------------------------------------------------------------------===//

Attribute fsdp::getDefaultSetting(MLIRContext *context, StringRef name) {
  return parseAttribute(("#" + name + "<>").str(), context);
}

namespace {
template <typename... Attrs>
struct Settings {
  static void remove(ModuleOp module) {
    (module->removeAttr(Attrs::name), ...);
  }

  /// None if it is not one of these.
  static std::optional<LogicalResult> verify(Operation *op,
                                             NamedAttribute attr) {
    StringRef name = attr.getName().getValue();
    if (!((name == Attrs::name) || ...))
      return std::nullopt;
    if (isa<ModuleOp>(op) &&
        ((name == Attrs::name && isa<Attrs>(attr.getValue())) || ...))
      return success();
    return op->emitError("'") << name << "' expects a module and a #" << name;
  }
};

using CaptureSettings = Settings<PrecisionAttr, NoiseAttr>;
using CompileSettings =
    Settings<ShardsAttr, ParallelAttr, BucketsAttr, StepAttr, Float8Attr,
             QuantizeAttr, RecomputeAttr, OffloadAttr, OptimizerAttr,
             LossScaleAttr, EmaAttr, ReportedNormsAttr>;
using RunSettings = Settings<ScheduleAttr, DataAttr, ValidationAttr,
                             ArithmeticAttr, OnNonFiniteAttr>;
} // namespace

void fsdp::removeCompileSettings(ModuleOp module) {
  CompileSettings::remove(module);
}

LogicalResult fsdp::verifySetting(Operation *op, NamedAttribute attr) {
  if (auto result = CaptureSettings::verify(op, attr))
    return *result;
  if (auto result = CompileSettings::verify(op, attr))
    return *result;
  if (auto result = RunSettings::verify(op, attr))
    return *result;
  if (attr.getName() != kSeedAttr)
    return success();
  auto seed = dyn_cast<IntegerAttr>(attr.getValue());
  if (isa<ModuleOp>(op) && seed && seed.getType().isInteger(64) &&
      seed.getInt() >= 0)
    return success();
  return op->emitError(
      "'fsdp.seed' expects a module and a number from 0 (i64)");
}
