//===- ShardingFields.cpp - fsdp_config of the config ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Grains.h"
#include "tools/fsdp-opt/config/Tables.h"

using namespace fsdp;

//===----------------------------------------------------------------------===//
// Buckets
//===----------------------------------------------------------------------===//

static void readBuckets(const Value &value, Config &config) {
  const YamlReader &read = value.reader();
  if (!value.node.IsMap())
    value.failType("a map of names and patterns such as {heads: \"*head*\"}");
  for (const auto &entry : value.node) {
    NamedBucket &bucket = config.buckets.emplace_back();
    bucket.name = read.readString(entry.first, value.key);
    bucket.patterns = read.readStrings(entry.second, bucket.name);
    for (size_t i = 0; i + 1 < config.buckets.size(); ++i)
      if (config.buckets[i].name == bucket.name)
        read.fail(ErrorId::ConfigBadValue, entry.first,
                  "'" + bucket.name + "' stands twice in buckets; keep one");
  }
}

/// None if the value is true or false.
static std::optional<int64_t> readReshardRanks(const Value &value) {
  if (YamlReader::isBool(value.node))
    return std::nullopt;
  if (!YamlReader::isInt(value.node))
    value.failType("true, false or a number of ranks");
  return between(1, kMostRanks).read(value);
}

static void readReshard(const Value &value, Config &config) {
  std::optional<int64_t> ranks = readReshardRanks(value);
  if (!ranks) {
    config.reshard = Flag().read(value) ? Reshard::All : Reshard::None;
    return;
  }
  config.reshard = *ranks == 1 ? Reshard::None : Reshard::All;
  config.reshardRanks = *ranks;
  if (*ranks == 1)
    value.reading.addNote(value.node,
                          "'" + value.key + ": 1' is the same as false");
}

static void readShardDims(const Value &value, Config &config) {
  const YamlReader &read = value.reader();
  if (!value.node.IsMap())
    value.failType("a map of patterns and dims such as {\"*.weight\": 1}");
  for (const auto &entry : value.node) {
    std::string pattern = read.readString(entry.first, value.key);
    const YAML::Node &dim = entry.second;
    bool isLargest = dim.IsScalar() && dim.Scalar() == "largest";
    if (!isLargest && !YamlReader::isInt(dim))
      read.failType(dim, pattern, "a dim from 0, or 'largest'");
    // PyTorch's tensors have 64 dims at most.
    std::optional<int64_t> number;
    if (!isLargest)
      number = read.readInt(dim, pattern);
    if (number.value_or(0) < 0 || number.value_or(0) > 63)
      read.fail(ErrorId::ConfigBadValue, dim,
                "'shard_dims' of '" + pattern +
                    "': expected a dim from 0, or 'largest', found " +
                    dim.Scalar());
    // Messages stand at the pattern.
    value.reading.take(value.path + "[" +
                           std::to_string(config.shardDims.size()) + "]",
                       {entry.first, entry.first});
    config.shardDims.push_back({pattern, number});
  }
}

//===----------------------------------------------------------------------===//
// Mixed precision
//===----------------------------------------------------------------------===//

static const Table<PrecisionPolicy> &getPrecision() {
  const auto dtype = oneOf({"bfloat16", "float16", "float32", "float64"});
  static const Table<PrecisionPolicy> table = {
      "fsdp_config.mixed_precision",
      {
          {"param_dtype",
           &PrecisionPolicy::paramDtype,
           dtype,
           "in which parameters are gathered and the model computes",
           {.absent = "the original one", .mayBeEmpty = true}},
          {"reduce_dtype",
           &PrecisionPolicy::reduceDtype,
           dtype,
           "in which gradients are reduced. The default is that of PyTorch "
           "2.15; up to 2.11 it was `param_dtype`",
           {.absent = "the parameter's original one", .mayBeEmpty = true}},
          {"output_dtype",
           &PrecisionPolicy::outputDtype,
           dtype,
           "of the floating-point tensors that the model returns, the loss "
           "among them",
           {.absent = "as computed", .mayBeEmpty = true}},
          {"cast_forward_inputs", &PrecisionPolicy::castForwardInputs,
           "casts floating-point inputs to `param_dtype`; without that there "
           "is nothing to cast to"},
      }};
  return table;
}

//===----------------------------------------------------------------------===//
// Overrides
//===----------------------------------------------------------------------===//

static void readOverrideReshard(const Value &value, ModuleOverride &override) {
  override.reshard = readReshardRanks(value);
  if (!override.reshard)
    override.reshard = Flag().read(value) ? 0 : 1;
}

static const Table<ModuleOverride> &getOverrides() {
  static const Table<ModuleOverride> table = {
      "fsdp_config.overrides",
      {
          {"modules",
           &ModuleOverride::modules,
           NameList{"pattern"},
           "paths of modules, as `*` and `?` match them (dots too): "
           "`\"*norm*\"`. A module that matches is meant with all beneath it",
           {.absent = "needed"}},
          section<ModuleOverride>(
              "mixed_precision", &ModuleOverride::precision, getPrecision(),
              "the keys of `fsdp_config.mixed_precision`, none of which is "
              "taken over from there: `{}` is full precision"),
          {"reshard_after_forward",
           readOverrideReshard,
           "true, false or a number",
           "",
           "of the buckets called so (`--explain` lists them): `layers.0`, "
           "`root`",
           {.mayBeEmpty = true}},
          {"bucket_layout", &ModuleOverride::layout,
           "of the buckets called so"},
          {"prefetch",
           &ModuleOverride::prefetch,
           between(0, 1 << 20),
           "how many buckets ahead those called so are gathered. What is "
           "needed before one of them is gathered no later than that one",
           {.absent = "`fsdp_config.prefetch`"}},
          {"reduce_wire_dtype",
           &ModuleOverride::reduceWireDtype,
           oneOf({"bfloat16", "float8", "float32"}),
           "of the buckets called so; `float32`: they travel as they are "
           "summed",
           {.absent = "`fsdp_config.reduce_wire_dtype`", .mayBeEmpty = true}},
      }};
  return table;
}

//===----------------------------------------------------------------------===//
// fsdp_config
//===----------------------------------------------------------------------===//

static const Choice<bool> kDivision = {
    {{"reduction", false}, {"optimizer", true}}};

/// Beside what lies where (getMemoryFields).
static const std::vector<Field<Config>> kFsdpConfig = {
    {"auto_wrap_policy",
     &Config::wrapPolicy,
     "which parameters are gathered together, in one bucket: "
     "`TRANSFORMER_BASED_WRAP`: each module of the given classes; "
     "`SIZE_BASED_WRAP`: modules with at least `min_num_params` "
     "parameters; `NO_WRAP`: all in one. Absent: each repeated block of "
     "the module tree (`layers.0`, `layers.1`, …), or one bucket if "
     "nothing repeats. What is left over is the root bucket",
     {.absent = "by repeated blocks"}},
    {"transformer_layer_cls_to_wrap", &Config::wrapClasses,
     "the classes, also as one text with commas; needed by "
     "`TRANSFORMER_BASED_WRAP` and used by nothing else. `fsdp-opt MODEL "
     "--explain` lists the model's classes"},
    {"min_num_params", &Config::minParams, from(1),
     "for `SIZE_BASED_WRAP`, and used by nothing else"},
    {"buckets",
     readBuckets,
     "map of names and patterns",
     "",
     "buckets of your own, before any policy: `{ends: [embed, lm_head], "
     "norms: \"*norm*\"}`. A [pattern](#patterns) matches names of "
     "parameters, or of modules with all that is in them; of several "
     "buckets the first one counts. The policy puts the rest where it "
     "would. Members always move in the order in which the model "
     "registers them",
     {.mayBeEmpty = true}},
    {"bucket_layout", &Config::layout,
     "what each rank holds of a bucket: `rows` of every parameter, as "
     "FSDP2; `flat`: an equal part of all its parameters, one behind the "
     "other, regardless of rows, which are gathered, reduced and updated "
     "as one tensor; `auto`: `flat` for what can be; `fsdp2`: rows that "
     "are copied together to be moved, for comparison. See "
     "[below](#bucket-layouts)"},
    {"reshard_after_forward",
     readReshard,
     "true, false or a number",
     "true, but for the root bucket",
     "true: every bucket is freed after its forward and gathered again "
     "for its backward (least memory); false: kept until its backward "
     "(least transfer); absent: as true, but the root bucket is kept. A "
     "number k, which divides `dp_shard`: between forward and backward "
     "each k adjacent ranks hold the parameters together, from which "
     "backward gathers among those; 1 is the same as false",
     {.mayBeEmpty = true}},
    {"ignored_params", &Config::ignoredParams, NameList{"pattern"},
     "parameters that every rank holds whole, by any of their names (`*` "
     "stands for any characters). Their gradients are averaged over all "
     "ranks by all-reduce. Scalar parameters are treated so without "
     "being named"},
    {"reduce_ignored_params", &Config::reduceIgnoredParams,
     "false: nothing is exchanged of the gradients of `ignored_params`; "
     "each rank trains its own copy on its own data, and an export holds "
     "rank 0's"},
    {"shard_dims", readShardDims, "map of patterns and dims", "",
     "parameters that are cut along another dim than 0: `{\"*.weight\": "
     "1, \"head.*\": largest}`. The last one that matches counts; sizes "
     "need not be divisible. What is cut along another dim is transposed "
     "before and after each transfer, which costs two copies"},
    {"reshard_after_backward", &Config::keepGathered, Negated(),
     "false: parameters are gathered in a step's first micro-batch and "
     "stay until its last; needs `reshard_after_forward: false`. See "
     "[below](#micro-batches)"},
    {"grains",
     &Config::grains,
     between(1, kMaxGrains),
     "batches of a step, on all ranks together: loss and weights then "
     "have the same bits on any number of ranks up to this one, see "
     "[SameBits.md](SameBits.md)",
     {.absent = "each rank computes `gradient_accumulation_steps`"}},
    {"gradient_sync", &Config::sync,
     "when ranks exchange the gradients of a step's micro-batches. See "
     "[below](#micro-batches)"},
    section<Config>(
        "mixed_precision",
        [](Config &config) -> auto & { return config.precision.policy; },
        getPrecision(), "see [below](#mixed-precision)"),
    {"gradient_divide_factor",
     &Config::gradientDivideFactor,
     aboveZero("leave it out for the number of ranks"),
     "by what the sum of a gradient over ranks is divided",
     {.absent = "the number of ranks", .mayBeEmpty = true}},
    {"force_sum_reduction", &Config::forceSumReduction,
     "gradients are summed and then divided, instead of averaged by the "
     "collective"},
    {"gradient_division",
     &Config::divideInOptimizer,
     kDivision,
     "who divides gradients by the number of ranks, or by "
     "`gradient_divide_factor`: `reduction`, as FSDP2; or `optimizer`: "
     "ranks exchange sums, and the optimizer divides what it reads, "
     "together with clipping. The same bits where the divisor is a power "
     "of two. Gradients in float16, and those of a rank's own "
     "(`reduce_ignored_params: false`), are divided by reductions "
     "always; with `bucket_layout: fsdp2` or `force_sum_reduction` that "
     "is the default everywhere",
     {.absent = "`optimizer` with `device: cuda`, else `reduction`"}},
    {"reduce_wire_dtype",
     &Config::reduceWireDtype,
     oneOf({"bfloat16", "float8"}),
     "in which gradients that are reduced in float32 travel to the rank "
     "that sums their rows, which it does in float32; see "
     "[below](#what-travels-in-a-reduction)",
     {.absent = "the type that they are reduced in", .mayBeEmpty = true}},
    list("overrides", &Config::overrides, getOverrides(),
         "a list of maps such as {modules: \"*norm*\", mixed_precision: "
         "{param_dtype: float32}}",
         "what holds for some modules instead; of several that match, "
         "the last one"),
    {"prefetch", &Config::prefetch, between(0, 1 << 20),
     "how many buckets are gathered ahead of the one in use, in forward "
     "and in backward; 0: each is gathered when it is needed. More hides "
     "more, and needs their memory"},
    {"reductions_in_flight", &Config::reductionsInFlight, between(1, 1 << 20),
     "when so many reductions of gradients have started behind one, "
     "that one is waited for and its memory is free. What starts behind "
     "the wait, gathers too, begins when the reduction is over: more "
     "delays less, and needs the gradients' memory for longer"},
};

static const Table<Config> &getFsdpConfig() {
  static const Table<Config> table = [] {
    Table<Config> all = {"fsdp_config", kFsdpConfig};
    for (const Field<Config> &field : getMemoryFields())
      all.fields.push_back(field);
    return all;
  }();
  return table;
}

std::vector<Field<Config>> fsdp::getShardingFields() {
  return {section<Config>("fsdp_config", std::identity(), getFsdpConfig(),
                          "how parameters are sharded, gathered and reduced")};
}
