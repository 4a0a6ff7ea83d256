//===- Foreign.cpp - Keys of other tools that have a meaning --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Foreign.h"

#include "tools/fsdp-opt/config/Checks.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/Tables.h"

#include <algorithm>
#include <cmath>

using namespace fsdp;

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

void fsdp::readOptimizerWord(const Value &value, OptimizerConfig &optimizer) {
  struct Word {
    std::string_view word, name;
    bool isInt8 = false;
  };
  static constexpr Word words[] = {{"adamw_torch", "adamw"},
                                   {"adamw_torch_fused", "adamw"},
                                   {"adamw_8bit", "adamw", true},
                                   {"adamw_bnb_8bit", "adamw", true},
                                   {"sgd", "sgd"}};
  for (const Word &each : words) {
    if (value.node.Scalar() != each.word)
      continue;
    optimizer.name = each.name;
    if (each.isInt8)
      optimizer.stateDType = StateChoice::Int8;
    value.reading.addNote(
        value.node,
        "'" + value.key + ": " + std::string(each.word) +
            "' is taken as optimizer: {name: " + std::string(each.name) +
            ", weight_decay: 0" + (each.isInt8 ? ", state_dtype: int8" : "") +
            "}, transformers' defaults");
    return;
  }
  value.failType("a map such as {name: adamw, lr: 1.0e-3}, or adamw_torch, "
                 "adamw_torch_fused, adamw_8bit, adamw_bnb_8bit or sgd as in "
                 "transformers");
}

/// transformers leaves biases and norms out of it, which patterns must say
/// here.
static void readDecay(const Value &value) {
  if (kFromZero.read(value) != 0)
    value.reader().fail(
        ErrorId::ConfigNotSupported, value.node,
        "'weight_decay' spares biases and norms in transformers; say so "
        "with optimizer: {weight_decay: " +
            value.node.Scalar() +
            ", groups: [{params: [\"*bias\", \"*norm*\"], "
            "weight_decay: 0.0}]}");
  value.reading.result.config.optimizer.weightDecay = 0;
}

static void readBeta1(const Value &value) {
  value.reading.result.config.optimizer.beta1 = kBeta.read(value);
}

static void readBeta2(const Value &value) {
  value.reading.result.config.optimizer.beta2 = kBeta.read(value);
}

//===----------------------------------------------------------------------===//
// Precision
//===----------------------------------------------------------------------===//

static void takePrecision(const Value &value, const std::string &dtype) {
  Config &config = value.reading.result.config;
  PrecisionPolicy &precision = config.precision.policy;
  precision.paramDtype = precision.reduceDtype = precision.outputDtype = dtype;
  bool isScaled = dtype == "float16";
  if (isScaled && !config.lossScale)
    config.lossScale.emplace();
  value.reading.addNote(
      value.node,
      "'" + value.node.Scalar() + "' stands for {param_dtype: " + dtype +
          ", reduce_dtype: " + dtype + ", output_dtype: " + dtype + "}" +
          (isScaled ? " with loss_scale: dynamic" : "") + ", as in Accelerate");
}

/// What Accelerate makes of it under FSDP2 (accelerate,
/// utils/dataclasses.py, FullyShardedDataParallelPlugin.set_mixed_precision):
/// parameters, reductions and outputs in one type. Axolotl's `bf16` sets it.
static void readPrecision(const Value &value) {
  std::string text = value.node.IsScalar() ? value.node.Scalar() : "";
  if (text == "fp16")
    return takePrecision(value, "float16");
  if (text != "bf16" && text != "true" && text != "True" && text != "auto")
    value.failType("no, bf16 or fp16");
  takePrecision(value, "bfloat16");
}

/// Axolotl's and transformers'.
static void readFp16(const Value &value) {
  if (Flag().read(value))
    takePrecision(value, "float16");
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Files of Axolotl have it beside fsdp_config's own, which counts.
static void readGradientCheckpointing(const Value &value) {
  // What is offloaded there is what checkpoints keep.
  bool isOffloaded =
      value.node.IsScalar() &&
      (value.node.Scalar() == "offload" || value.node.Scalar() == "unsloth");
  if (!isOffloaded && !YamlReader::isBool(value.node))
    value.failType("true, false or offload");
  Config &config = value.reading.result.config;
  if (!value.reading.find("fsdp_config.activation_checkpointing"))
    config.checkpointing.emplace_back();
  if (isOffloaded)
    config.offloadActivations = {"*"};
  value.reading.addMinor(
      value.node, "'" + value.key +
                      "' is taken as fsdp_config: "
                      "{activation_checkpointing: true" +
                      (isOffloaded ? ", activation_offloading: true}" : "}"));
}

/// Kernels of a linear layer and its loss that keep no logits.
static void readFusedLoss(const Value &value) {
  if (!Flag().read(value))
    return;
  if (!value.reading.find("fsdp_config.loss_chunks"))
    value.reading.result.config.lossChunks = 0;
  value.reading.addMinor(value.node,
                         "'" + value.key +
                             "' is taken as fsdp_config: {loss_chunks: auto}");
}

static void takeQuantized(const Value &value, QuantizeChoice kind) {
  Config &config = value.reading.result.config;
  if (!value.reading.find("quantize"))
    config.quantize.emplace().kind = kind;
  value.reading.addNote(
      value.node, "'" + value.key + "' is taken as quantize: {kind: " +
                      (kind == QuantizeChoice::Nf4 ? "nf4" : "int8") +
                      "}, unless that is given; an output layer that is frozen "
                      "is among them, skip_modules: lm_head leaves it out");
}

/// bitsandbytes' through transformers.
static void readLoadIn4Bit(const Value &value) {
  if (Flag().read(value))
    takeQuantized(value, QuantizeChoice::Nf4);
}

static void readLoadIn8Bit(const Value &value) {
  if (Flag().read(value))
    takeQuantized(value, QuantizeChoice::Int8);
}

/// Axolotl's. Adapters themselves are part of the exported model: a base that
/// is quantized has to be frozen there, which a model without them is not.
static void readAdapter(const Value &value) {
  std::string text = value.node.IsScalar() ? value.node.Scalar() : "";
  auto isOn = [&](const char *key) {
    YAML::Node node = value.reading.root[key];
    return node && YamlReader::isBool(node) && node.as<bool>();
  };
  if (text == "qlora")
    return takeQuantized(value, QuantizeChoice::Nf4);
  if (text == "lora" && (isOn("load_in_4bit") || isOn("load_in_8bit")))
    return value.reading.addMinor(
        value.node, "'adapter: lora' is what the exported model has");
  value.reader().fail(
      ErrorId::ConfigNotSupported, value.node,
      "'adapter' cannot be had: apply adapters in Python before "
      "the export; frozen parameters stay frozen");
}

//===----------------------------------------------------------------------===//
// Schedule
//===----------------------------------------------------------------------===//

/// -1 says that epochs count.
static void readMaxSteps(const Value &value) {
  int64_t steps = Whole{.most = kMostSteps}.read(value);
  if (steps > 0)
    open(value.reading.result.config.schedule).total_steps =
        static_cast<uint64_t>(steps);
}

/// A number with a point in transformers' and Axolotl's files.
static void readEpochs(const Value &value) {
  double epochs = value.reader().readDouble(value.node, value.key);
  if (!(epochs >= 1 && epochs <= double(kMostSteps)) ||
      epochs != std::trunc(epochs))
    value.failRange("a whole number from 1; fsdp-run --steps=N ends within an "
                    "epoch");
  open(value.reading.result.config.data).data.epochs =
      static_cast<uint64_t>(epochs);
}

void fsdp::mergeSchedule(Reading &reading) {
  std::optional<plan::ScheduleT> &schedule = reading.result.config.schedule;
  if (!schedule)
    return;
  auto findForeign = [&](const char *path) {
    const Given *key = reading.find(path);
    return key && key->isForeign ? key : nullptr;
  };
  const Given *steps = findForeign("lr_scheduler.warmup_steps");
  const Given *ratio = findForeign("lr_scheduler.warmup_ratio");
  uint64_t ownSteps = steps ? 0 : schedule->warmup_steps;
  double ownRatio = ratio ? 0 : schedule->warmup_ratio;
  const Given *warmup = steps && schedule->warmup_steps != 0   ? steps
                        : ratio && schedule->warmup_ratio != 0 ? ratio
                                                               : nullptr;
  const Given *scheduler = reading.find("lr_scheduler");
  if (!scheduler || scheduler->value.IsNull()) {
    if (warmup)
      reading.read.fail(ErrorId::ConfigMissingKey, warmup->value,
                        "a warm-up needs lr_scheduler, such as cosine or "
                        "constant_with_warmup");
    schedule.reset();
    return;
  }
  if (!warmup)
    return;
  if (getScheduleName(reading) == "constant") {
    reading.addNote(warmup->value,
                    "a warm-up has no effect with lr_scheduler: constant, as "
                    "in transformers; constant_with_warmup has one");
    schedule->warmup_steps = ownSteps;
    schedule->warmup_ratio = ownRatio;
  } else if (ownSteps != 0 || ownRatio != 0) {
    reading.read.fail(ErrorId::ConfigBadValue, warmup->value,
                      "the warm-up is given in lr_scheduler, too; keep one");
  } else if (warmup == steps) {
    // As transformers: steps count if both are given.
    schedule->warmup_ratio = 0;
  }
}

//===----------------------------------------------------------------------===//
// Mesh
//===----------------------------------------------------------------------===//

static void readProcesses(const Value &value) {
  int64_t processes = between(1, kMostRanks).read(value);
  if (!value.reading.world)
    value.reading.world = processes;
}

/// Accelerate's, whose keys have a prefix in its files.
static void readParallelism(const Value &value) {
  static constexpr std::pair<std::string_view, std::string_view> axes[] = {
      {"dp_replicate_size", "mesh.dp_replicate"},
      {"dp_shard_size", "mesh.dp_shard"},
      {"tp_size", "mesh.tp"},
      {"cp_size", "mesh.cp"}};
  constexpr std::string_view prefix = "parallelism_config_";
  if (!value.node.IsMap())
    value.failType("a map of keys and values");
  for (const auto &entry : value.node) {
    std::string written = entry.first.Scalar();
    std::string_view own = written;
    if (own.starts_with(prefix))
      own.remove_prefix(prefix.size());
    const auto *axis = std::ranges::find(
        axes, own, &std::pair<std::string_view, std::string_view>::first);
    if (axis == std::end(axes)) {
      const ForeignKey *foreign = findForeignKey("parallelism_config", own);
      if (!foreign)
        value.reader().fail(ErrorId::ConfigUnknownKey, entry.first,
                            "unknown key '" + written +
                                "' in parallelism_config; write mesh: {…}");
      reportForeign(value.reading, *foreign, {entry.first, entry.second, true});
      continue;
    }
    std::string path(axis->second);
    value.reading.collect(path, [&] {
      value.reading.take(path, {entry.first, entry.second, true});
      value.reading.addMinor(entry.first,
                             "'" + written + "' is taken as " + path);
      getTopLevel().readAt(path, {value.reading, path, written, entry.second},
                           value.reading.result.config);
    });
  }
}

//===----------------------------------------------------------------------===//
// Sizes that the export fixed
//===----------------------------------------------------------------------===//

static StatedSize readSize(const Value &value) {
  return {between(1, kMostSteps).read(value), value.key,
          value.reader().describePlace(value.node)};
}

static void readRows(const Value &value) {
  value.reading.result.rows = readSize(value);
}

static void readTokens(const Value &value) {
  value.reading.result.tokens = readSize(value);
}

//===----------------------------------------------------------------------===//
// FSDP1
//===----------------------------------------------------------------------===//

/// transformers' and older Axolotl's: words, as a list or with spaces between.
static void readFsdpWord(const Value &value) {
  const YAML::Node &node = value.node;
  if ((node.IsScalar() && node.Scalar().empty()) ||
      (node.IsSequence() && !node.size()))
    return;
  std::vector<std::string> words;
  for (std::string text : value.reader().readStrings(node, value.key))
    for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
      end = std::min(text.find(' ', begin), text.size());
      if (end > begin)
        words.push_back(text.substr(begin, end - begin));
    }
  for (const std::string &word : words) {
    if (word == "auto_wrap")
      continue;
    if (word != "full_shard")
      value.reader().fail(
          ErrorId::ConfigNotSupported, node,
          "'fsdp' cannot be had with '" + word +
              "'; say it with fsdp_config, such as {reshard_after_forward: "
              "false}");
    // What fsdp_config says counts, wherever it stands.
    if (!value.reading.find("fsdp_config.reshard_after_forward"))
      value.reading.result.config.reshard = Reshard::All;
  }
  value.reading.addMinor(node, "'fsdp' is taken as fsdp_config");
}

/// A name, or its number in torch.distributed.fsdp.ShardingStrategy.
static void readStrategy(const Value &value) {
  static constexpr std::string_view names[] = {"FULL_SHARD", "SHARD_GRAD_OP",
                                               "NO_SHARD", "HYBRID_SHARD",
                                               "_HYBRID_SHARD_ZERO2"};
  std::string &name = value.reading.strategy;
  if (YamlReader::isInt(value.node)) {
    int64_t number = value.reader().readInt(value.node, value.key);
    if (number < 1 || number > 5)
      value.failRange("a name or a number from 1 to 5");
    name = names[number - 1];
  } else if (value.node.IsScalar() &&
             value.node.Scalar() == "HYBRID_SHARD_ZERO2") {
    name = "_HYBRID_SHARD_ZERO2";
  } else {
    name = value.reader().readChoice(value.node, value.key, names);
  }
  bool keeps = name == "SHARD_GRAD_OP" || name == "_HYBRID_SHARD_ZERO2" ||
               name == "NO_SHARD";
  value.reading.result.config.reshard = keeps ? Reshard::None : Reshard::All;
}

void fsdp::applyStrategy(Reading &reading, std::optional<int64_t> &shard) {
  const std::string &strategy = reading.strategy;
  if (strategy.empty())
    return;
  const char *path = "fsdp_config.reshard_after_forward";
  Config &config = reading.result.config;
  std::string became = config.reshard == Reshard::All
                           ? "reshard_after_forward: true"
                           : "reshard_after_forward: false";
  bool hybrid = strategy.find("HYBRID") != std::string::npos;
  if (strategy == "NO_SHARD") {
    // All ranks are replicas, whether the mesh says so or not.
    bool isSharded = shard && *shard > 1;
    int64_t ranks = reading.world ? *reading.world / (config.tp * config.cp)
                                  : config.dpReplicate;
    if (isSharded || (config.dpReplicate > 1 && config.dpReplicate != ranks))
      reading.refuse(
          path, "'sharding_strategy: NO_SHARD' contradicts the mesh; leave one "
                "of them out");
    shard = 1;
    config.dpReplicate = ranks;
    became = "mesh: {dp_shard: 1, dp_replicate: " + std::to_string(ranks) + "}";
  } else if (hybrid && config.dpReplicate == 1) {
    reading.refuse(path,
                   "'sharding_strategy: " + strategy +
                       "' needs mesh: {dp_replicate: N}, the number of "
                       "replicas (FSDP1: of machines)",
                   ErrorId::ConfigMissingKey);
  } else if (hybrid) {
    became +=
        " with mesh: {dp_replicate: " + std::to_string(config.dpReplicate) +
        "}";
  } else if (config.dpReplicate > 1) {
    reading.refuse(path, "'sharding_strategy: " + strategy +
                             "' has no replicas and the mesh has " +
                             std::to_string(config.dpReplicate) +
                             "; write HYBRID_SHARD or _HYBRID_SHARD_ZERO2");
  }
  reading.addNote(reading.find(path)->value,
                  "'sharding_strategy: " + strategy + "' became " + became);
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

static constexpr std::string_view kComparedRows =
    "nothing: compared with the rows that the model was exported with; a "
    "difference is a warning";
static constexpr std::string_view kComparedTokens =
    "nothing: compared with the exported tokens of a row; a difference is a "
    "warning";

static constexpr Rename kRenames[] = {
    {"", "learning_rate", "optimizer.lr"},
    {"", "adam_beta1", "optimizer.betas[0]", readBeta1,
     "the first of `optimizer.betas`"},
    {"", "adam_beta2", "optimizer.betas[1]", readBeta2,
     "the second of `optimizer.betas`"},
    {"", "adam_epsilon", "optimizer.eps"},
    {"", "weight_decay", "optimizer.weight_decay", readDecay,
     "`optimizer.weight_decay`, 0 alone: transformers spares biases and norms, "
     "which `optimizer.groups` must say"},
    {"", "optim", "optimizer"},
    {"", "lr_scheduler_type", "lr_scheduler"},
    {.section = "",
     .name = "warmup_steps",
     .becomes = "lr_scheduler.warmup_steps",
     .text = "`lr_scheduler.warmup_steps`; without effect for `constant`, as "
             "in transformers"},
    {"", "warmup_ratio", "lr_scheduler.warmup_ratio"},
    {"", "max_steps", "lr_scheduler.total_steps", readMaxSteps,
     "`lr_scheduler.total_steps`; `fsdp-run --steps` says how long to run"},
    {"", "num_epochs", "data.epochs", readEpochs,
     "`data.epochs`, unless `max_steps` is given"},
    {"", "num_train_epochs", "data.epochs", readEpochs, "the same"},
    {"", "num_processes", "--world", readProcesses,
     "`--world`, unless that is given"},
    {.section = "",
     .name = "tensor_parallel_size",
     .becomes = "mesh.tp",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "tensor_parallel_degree",
     .becomes = "mesh.tp",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "context_parallel_size",
     .becomes = "mesh.cp",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "context_parallel_degree",
     .becomes = "mesh.cp",
     .sayNothingIfOff = true},
    {"mesh", "tensor", "mesh.tp"},
    {"", "parallelism_config", "", readParallelism,
     "`mesh`, by its `dp_replicate_size`, `dp_shard_size`, `tp_size` and "
     "`cp_size`"},
    {.section = "",
     .name = "mixed_precision",
     .becomes = "fsdp_config.mixed_precision",
     .read = readPrecision,
     .text = "`bf16`: `fsdp_config.mixed_precision` with all three types "
             "bfloat16, as Accelerate does under FSDP2; `fp16`: all three "
             "float16, with `loss_scale: dynamic` if that is not given",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "bf16",
     .becomes = "fsdp_config.mixed_precision",
     .read = readPrecision,
     .text = "with `true` or `auto` as `mixed_precision: bf16`",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "fp16",
     .becomes = "fsdp_config.mixed_precision",
     .read = readFp16,
     .text = "with `true` as `mixed_precision: fp16`",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "gradient_checkpointing",
     .becomes = "",
     .read = readGradientCheckpointing,
     .text = "`fsdp_config.activation_checkpointing`, unless that is given; "
             "with `offload` also `fsdp_config.activation_offloading`",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "activation_checkpointing",
     .becomes = "",
     .read = readGradientCheckpointing,
     .text = "the same",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "chunked_cross_entropy",
     .becomes = "",
     .read = readFusedLoss,
     .text = "`fsdp_config.loss_chunks: auto`, unless that is given",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "liger_fused_linear_cross_entropy",
     .becomes = "",
     .read = readFusedLoss,
     .text = "the same",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "cut_cross_entropy",
     .becomes = "",
     .read = readFusedLoss,
     .text = "the same",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "load_in_4bit",
     .becomes = "",
     .read = readLoadIn4Bit,
     .text = "`quantize: {kind: nf4}`, unless that is given",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "load_in_8bit",
     .becomes = "",
     .read = readLoadIn8Bit,
     .text = "`quantize: {kind: int8}`, unless that is given",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "adapter",
     .becomes = "",
     .read = readAdapter,
     .text = "`qlora`: `quantize: {kind: nf4}`, unless that is given; `lora` "
             "with `load_in_4bit` or `load_in_8bit`: nothing. The adapters are "
             "the exported model's",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "activation_offloading",
     .becomes = "fsdp_config.activation_offloading",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "offload_activations",
     .becomes = "fsdp_config.activation_offloading",
     .sayNothingIfOff = true},
    {"", "micro_batch_size", "", readRows, kComparedRows},
    {"", "per_device_train_batch_size", "", readRows, kComparedRows},
    {"", "sequence_len", "", readTokens, kComparedTokens},
    {"", "max_seq_length", "", readTokens, kComparedTokens},
    {"", "max_length", "", readTokens, kComparedTokens},
    {"", "block_size", "", readTokens, kComparedTokens},
    {"", "fsdp", "", readFsdpWord,
     "the words `full_shard` (`fsdp_config.reshard_after_forward: true`) and "
     "`auto_wrap`"},
    {"fsdp_config", "fsdp_version", "fsdp_version"},
    {.section = "fsdp_config",
     .name = "sharding_strategy",
     .becomes = "fsdp_config.reshard_after_forward",
     .read = readStrategy,
     .text = "FSDP1's, [see FromFsdp1.md](FromFsdp1.md)",
     .reports = true},
};

std::span<const Rename> fsdp::getRenames() { return kRenames; }

const Rename *fsdp::findRename(std::string_view section, std::string_view own,
                               std::string_view written) {
  auto it = std::ranges::find_if(kRenames, [&](const Rename &each) {
    return each.section == section &&
           (each.name == own || each.name == written);
  });
  return it == std::end(kRenames) ? nullptr : it;
}
