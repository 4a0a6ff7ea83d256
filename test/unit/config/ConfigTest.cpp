//===- ConfigTest.cpp - Config files, right and wrong -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/Config.h"
#include "runtime/support/Error.h"
#include "runtime/support/Nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

using namespace fsdp;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {
LoadedConfig parse(const std::string &text,
                   std::optional<int64_t> world = std::nullopt) {
  return parseConfig(text, "fsdp.yaml", world);
}

/// "E042 message" of the refusal; empty if there is none.
std::string refusal(const std::string &text,
                    std::optional<int64_t> world = std::nullopt) {
  try {
    parse(text, world);
  } catch (const Error &error) {
    EXPECT_EQ(error.exitStatus(), 2);
    return std::string(getErrorInfo(error.id()).id) + " " + error.what();
  }
  return "";
}

TEST(Config, ReadsEveryKey) {
  Config config = parse(R"(
fsdp_version: 2
mesh: {dp_replicate: 1, dp_shard: 8}
fsdp_config:
  auto_wrap_policy: TRANSFORMER_BASED_WRAP
  transformer_layer_cls_to_wrap: [LlamaDecoderLayer, "Other"]
  bucket_layout: flat
  reshard_after_forward: true
  reshard_after_backward: true
  gradient_sync: each
  mixed_precision: {param_dtype: bfloat16, reduce_dtype: float32, output_dtype: float64, cast_forward_inputs: false}
  gradient_divide_factor: 3
  force_sum_reduction: true
  overrides:
    - {modules: ["*norm*", head], mixed_precision: {param_dtype: float16}}
    - {modules: "*", mixed_precision: {}}
  offload_params: false
  cpu_offload_pin_memory: true
optimizer: {name: adam, lr: 3.0e-4, betas: [0.8, 0.95], eps: 1.0e-6, weight_decay: 0.1}
gradient_accumulation_steps: 1
max_grad_norm: 1.5
device: cpu
seed: 42
mode: train
init: {"*.weight": normal(0, 0.02), "*norm*": ones}
weights:
  rename: [{from: "^net[.](.*)$", to: "model.$1"}]
  ignore: ["head.*", rotary.*]
  strict: false
tied: [[head.weight, embed.weight]]
)")
                      .config;
  ASSERT_EQ(config.init.size(), 2u);
  EXPECT_EQ(config.init[0].pattern, "*.weight");
  EXPECT_EQ(config.init[0].call.name, "normal");
  EXPECT_EQ(config.init[0].call.numbers.at("std"), 0.02);
  EXPECT_EQ(config.init[1].call.name, "ones");
  ASSERT_EQ(config.weights.rename.size(), 1u);
  EXPECT_EQ(config.weights.rename[0].from, "^net[.](.*)$");
  EXPECT_EQ(config.weights.rename[0].to, "model.$1");
  EXPECT_THAT(config.weights.ignore, ElementsAre("head.*", "rotary.*"));
  EXPECT_FALSE(config.weights.strict);
  ASSERT_EQ(config.ties.size(), 1u);
  EXPECT_THAT(config.ties[0], ElementsAre("head.weight", "embed.weight"));
  EXPECT_EQ(config.dpShard, 8);
  EXPECT_EQ(config.wrapPolicy, WrapPolicy::Classes);
  EXPECT_THAT(config.wrapClasses, ElementsAre("LlamaDecoderLayer", "Other"));
  EXPECT_EQ(config.reshard, Reshard::All);
  EXPECT_EQ(config.layout, LayoutChoice::Flat);
  EXPECT_EQ(config.precision.describe(),
            "param_dtype=bfloat16 reduce_dtype=float32 output_dtype=float64 "
            "cast_forward_inputs=false; *norm*,head: param_dtype=float16; *: ");
  EXPECT_EQ(config.gradientDivideFactor, 3);
  EXPECT_TRUE(config.forceSumReduction);
  EXPECT_EQ(config.optimizer.name, "adam");
  EXPECT_DOUBLE_EQ(config.optimizer.lr, 3e-4);
  EXPECT_DOUBLE_EQ(config.optimizer.beta1, 0.8);
  EXPECT_DOUBLE_EQ(config.optimizer.beta2, 0.95);
  EXPECT_DOUBLE_EQ(config.optimizer.eps, 1e-6);
  EXPECT_DOUBLE_EQ(config.optimizer.weightDecay, 0.1);
  EXPECT_EQ(config.maxGradNorm, 1.5);
  EXPECT_EQ(config.seed, 42);
  EXPECT_EQ(config.mode, Mode::Train);
  EXPECT_TRUE(config.hasOptimizer);
}

TEST(Config, IgnoresWhatOnlyTrainingNeedsForInference) {
  EXPECT_EQ(parse("mesh: {dp_shard: 2}").config.mode, std::nullopt);
  EXPECT_FALSE(parse("mesh: {dp_shard: 2}").config.hasOptimizer);
  LoadedConfig plain = parse("mesh: {dp_shard: 2}\nmode: inference");
  EXPECT_EQ(plain.config.mode, Mode::Inference);
  EXPECT_TRUE(plain.notes.empty());
  // One file may serve both modes.
  LoadedConfig both = parse("mesh: {dp_shard: 2}\nmax_grad_norm: 1\n"
                            "optimizer: {lr: 1}\nmode: inference");
  EXPECT_THAT(both.notes,
              ElementsAre("fsdp.yaml:3:12: 'optimizer' has no effect with "
                          "mode: inference",
                          "fsdp.yaml:2:16: 'max_grad_norm' has no effect with "
                          "mode: inference"));
  EXPECT_THAT(refusal("mesh: {dp_shard: 2}\nmode: eval"),
              HasSubstr("'mode': expected "));
}

TEST(Config, HasTorchsDefaults) {
  Config config = parse("mesh: {dp_shard: 2}").config;
  EXPECT_EQ(config.reshard, Reshard::AllButRoot);
  EXPECT_EQ(config.wrapPolicy, WrapPolicy::Blocks);
  EXPECT_EQ(config.maxGradNorm, std::nullopt);
  EXPECT_EQ(config.optimizer.name, "adamw");
  EXPECT_DOUBLE_EQ(config.optimizer.weightDecay, 0.01);
  EXPECT_DOUBLE_EQ(parse("mesh: {dp_shard: 2}\noptimizer: {lr: 1, name: sgd}")
                       .config.optimizer.weightDecay,
                   0.0);
  // A key before the name keeps its value.
  EXPECT_DOUBLE_EQ(
      parse("mesh: {dp_shard: 2}\noptimizer: {weight_decay: 0.5, name: adamw}")
          .config.optimizer.weightDecay,
      0.5);
}

TEST(Config, CompletesTheMeshFromWorld) {
  EXPECT_EQ(parse("", 3).config.dpShard, 3);
  EXPECT_EQ(parse("mesh: {}", 3).config.dpShard, 3);
  EXPECT_EQ(parse("mesh: {dp_shard: -1}", 3).config.dpShard, 3);
  EXPECT_EQ(parse("mesh: {dp_shard: 3}", 3).config.dpShard, 3);
  EXPECT_THAT(refusal(""), HasSubstr("E046 fsdp.yaml"));
  EXPECT_THAT(refusal("mesh: {}"), HasSubstr("--world=N"));
  EXPECT_THAT(refusal("mesh: {dp_shard: -1}"), HasSubstr("E046"));
  EXPECT_THAT(refusal("mesh: {dp_shard: 4}", 3),
              HasSubstr("E047 fsdp.yaml:1:7: the mesh has 4 ranks and "
                        "--world=3"));
}

TEST(Config, AcceptsReshardAfterForward) {
  auto reshard = [](const char *value) {
    return parse(std::string("mesh: {dp_shard: 2}\nfsdp_config: "
                             "{reshard_after_forward: ") +
                 value + "}")
        .config.reshard;
  };
  EXPECT_EQ(reshard("true"), Reshard::All);
  EXPECT_EQ(reshard("false"), Reshard::None);
  EXPECT_EQ(reshard("null"), Reshard::AllButRoot);
}

TEST(Config, ReadsLayoutsOfBuckets) {
  const std::string begin = "mesh: {dp_shard: 2}\nfsdp_config: ";
  EXPECT_EQ(parse(begin + "{}").config.layout, LayoutChoice::Rows);
  EXPECT_EQ(parse(begin + "{bucket_layout: auto}").config.layout,
            LayoutChoice::Auto);
  EXPECT_EQ(parse(begin + "{bucket_layout: fsdp2}").config.layout,
            LayoutChoice::Fsdp2);
  Config config = parse(begin + "{overrides: [{modules: a, bucket_layout: "
                                "flat}, {modules: b}]}")
                      .config;
  ASSERT_EQ(config.overrides.size(), 2u);
  EXPECT_EQ(config.overrides[0].layout, LayoutChoice::Flat);
  EXPECT_EQ(config.overrides[1].layout, std::nullopt);
  EXPECT_THAT(refusal(begin + "{bucket_layout: flatt}"),
              HasSubstr("did you mean 'flat'"));
}

TEST(Config, ReadsGroupsOfParameters) {
  Config config = parse(R"(
mesh: {dp_shard: 2}
optimizer:
  name: sgd
  momentum: 0.9
  nesterov: true
  groups:
    - {params: ["*.bias", "*norm*"], weight_decay: 0.0}
    - {params: head.*, lr: 1.0e-4, momentum: 0.5, nesterov: false}
)")
                      .config;
  EXPECT_TRUE(config.optimizer.nesterov);
  ASSERT_EQ(config.optimizer.groups.size(), 2u);
  const OptimizerGroup &first = config.optimizer.groups[0];
  EXPECT_THAT(first.patterns, ElementsAre("*.bias", "*norm*"));
  EXPECT_EQ(first.weightDecay, 0.0);
  EXPECT_EQ(first.lr, std::nullopt);
  const OptimizerGroup &second = config.optimizer.groups[1];
  EXPECT_THAT(second.patterns, ElementsAre("head.*"));
  EXPECT_EQ(second.lr, 1e-4);
  EXPECT_EQ(second.momentum, 0.5);
  EXPECT_EQ(second.nesterov, false);
  EXPECT_EQ(second.weightDecay, std::nullopt);
  // The base's settings come behind the groups as well as before them.
  EXPECT_EQ(
      parse("mesh: {dp_shard: 2}\noptimizer: {groups: [{params: a, betas: "
            "[0.1, 0.2]}], lr: 0.5}")
          .config.optimizer.lr,
      0.5);
  EXPECT_THAT(refusal("optimizer: {groups: [{lr: 1}]}"), HasSubstr("E046"));
  EXPECT_THAT(refusal("optimizer: {groups: {params: a}}"),
              HasSubstr("a list of groups"));
  EXPECT_THAT(refusal("optimizer: {groups: [{parms: a}]}"),
              HasSubstr("in optimizer.groups; did you mean 'params'?"));
}

TEST(Config, ReadsSchedulesOfTheLearningRate) {
  auto schedule = [](const std::string &text) {
    return *parse("mesh: {dp_shard: 2}\n" + text).config.schedule;
  };
  EXPECT_EQ(parse("mesh: {dp_shard: 2}").config.schedule, std::nullopt);
  EXPECT_EQ(schedule("lr_scheduler: cosine").kind, plan::ScheduleKind::cosine);
  plan::ScheduleT full =
      schedule("lr_scheduler: {name: cosine_with_min_lr, warmup_steps: 10, "
               "total_steps: 100, min_lr: 1.0e-5}");
  EXPECT_EQ(full.kind, plan::ScheduleKind::cosine);
  EXPECT_EQ(full.warmup_steps, 10u);
  EXPECT_EQ(full.total_steps, 100u);
  EXPECT_EQ(full.min_lr, 1e-5);
  EXPECT_EQ(
      schedule("lr_scheduler: {name: linear, warmup_ratio: 0.1}").warmup_ratio,
      0.1);
  EXPECT_THAT(refusal("lr_scheduler: {warmup_steps: 3}"), HasSubstr("E046"));
  EXPECT_EQ(
      parse("mesh: {dp_shard: 2}\ngrad_norm_type: inf").config.gradNormType,
      std::numeric_limits<double>::infinity());
  EXPECT_EQ(parse("mesh: {dp_shard: 2}\ngrad_norm_type: 1").config.gradNormType,
            1);
}

TEST(Config, ReadsBuckets) {
  Config config = parse("mesh: {dp_shard: 2}\nfsdp_config:\n  buckets: {ends: "
                        "[embed, head.*], norms: '*norm*'}")
                      .config;
  ASSERT_EQ(config.buckets.size(), 2u);
  EXPECT_EQ(config.buckets[0].name, "ends");
  EXPECT_THAT(config.buckets[0].patterns, ElementsAre("embed", "head.*"));
  EXPECT_EQ(config.buckets[1].name, "norms");
}

TEST(Config, TakesKeysOfTransformers) {
  LoadedConfig loaded = parse("optimizer: adamw_torch_fused\n"
                              "learning_rate: 2.0e-4\n"
                              "lr_scheduler: cosine\n"
                              "warmup_steps: 10\n"
                              "max_steps: 100\n"
                              "adam_beta2: 0.95\n"
                              "adam_epsilon: 1.0e-6\n"
                              "weight_decay: 0.0\n"
                              "max_grad_norm: 1.0\n"
                              "num_processes: 4\n");
  const Config &config = loaded.config;
  EXPECT_EQ(config.dpShard, 4);
  EXPECT_EQ(config.optimizer.name, "adamw");
  EXPECT_EQ(config.optimizer.lr, 2e-4);
  EXPECT_EQ(config.optimizer.beta1, 0.9);
  EXPECT_EQ(config.optimizer.beta2, 0.95);
  EXPECT_EQ(config.optimizer.eps, 1e-6);
  EXPECT_EQ(config.optimizer.weightDecay, 0);
  EXPECT_EQ(config.schedule->kind, plan::ScheduleKind::cosine);
  EXPECT_EQ(config.schedule->warmup_steps, 10u);
  EXPECT_EQ(config.schedule->total_steps, 100u);
  EXPECT_EQ(config.maxGradNorm, 1.0);
  EXPECT_EQ(loaded.notes.size(), 8u);
  EXPECT_EQ(loaded.notes[1],
            "fsdp.yaml:2:1: 'learning_rate' is taken as optimizer.lr");
  EXPECT_THAT(refusal("optimizer: adamw_torch"), HasSubstr("learning_rate"));
  EXPECT_THAT(refusal("weight_decay: 0.1"),
              HasSubstr("groups: [{params: [\"*bias\", \"*norm*\"]"));
  EXPECT_THAT(refusal("warmup_steps: 3"), HasSubstr("needs lr_scheduler"));
  LoadedConfig constant = parse("lr_scheduler: constant\nwarmup_steps: 3\n", 2);
  EXPECT_EQ(constant.config.schedule->warmup_steps, 0u);
  EXPECT_THAT(constant.notes[1], HasSubstr("no effect"));
}

TEST(Config, TakesKeysOfAccelerate) {
  LoadedConfig loaded = parse(R"(
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
downcast_bf16: 'no'
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer
  fsdp_reshard_after_forward: false
  fsdp_offload_params: false
  fsdp_state_dict_type: SHARDED_STATE_DICT
  fsdp_cpu_ram_efficient_loading: true
  fsdp_activation_checkpointing: false
machine_rank: 0
mixed_precision: 'no'
num_machines: 1
num_processes: 8
)");
  const Config &config = loaded.config;
  EXPECT_EQ(config.dpShard, 8);
  EXPECT_EQ(config.reshard, Reshard::None);
  EXPECT_EQ(config.wrapPolicy, WrapPolicy::Classes);
  EXPECT_THAT(config.wrapClasses, ElementsAre("LlamaDecoderLayer"));
  EXPECT_THAT(refusal("fsdp_config: {fsdp_activation_checkpointing: true}"),
              HasSubstr("E045"));
  EXPECT_THAT(refusal("fsdp_config: {fsdp_reshard_after_foward: true}"),
              HasSubstr("did you mean"));
}

TEST(Config, MapsShardingStrategiesOfFsdp1) {
  struct Case {
    const char *text;
    int64_t shard, replicate;
    Reshard reshard;
  };
  for (const Case &each : {
           Case{"fsdp_config: {sharding_strategy: FULL_SHARD}", 4, 1,
                Reshard::All},
           {"fsdp_config: {fsdp_sharding_strategy: 1}", 4, 1, Reshard::All},
           {"fsdp_config: {sharding_strategy: SHARD_GRAD_OP}", 4, 1,
            Reshard::None},
           {"fsdp_config: {fsdp_sharding_strategy: 2}", 4, 1, Reshard::None},
           {"fsdp_config: {sharding_strategy: NO_SHARD}", 1, 4, Reshard::None},
           {"fsdp_config: {sharding_strategy: 3}\nmesh: {dp_replicate: 4}", 1,
            4, Reshard::None},
           {"fsdp_config: {sharding_strategy: HYBRID_SHARD}\n"
            "mesh: {dp_replicate: 2}",
            2, 2, Reshard::All},
           {"fsdp_config: {sharding_strategy: 4}\nmesh: {dp_replicate: 2}", 2,
            2, Reshard::All},
           {"fsdp_config: {sharding_strategy: HYBRID_SHARD_ZERO2}\n"
            "mesh: {dp_replicate: 2}",
            2, 2, Reshard::None},
           {"fsdp_config: {sharding_strategy: 5}\nmesh: {dp_replicate: 2}", 2,
            2, Reshard::None},
       }) {
    LoadedConfig loaded = parse(each.text, 4);
    EXPECT_EQ(loaded.config.dpShard, each.shard) << each.text;
    EXPECT_EQ(loaded.config.dpReplicate, each.replicate) << each.text;
    EXPECT_EQ(loaded.config.reshard, each.reshard) << each.text;
    EXPECT_EQ(loaded.notes.size(), 1u) << each.text;
    EXPECT_THAT(loaded.notes[0], HasSubstr("' became ")) << each.text;
  }
  EXPECT_THAT(refusal("fsdp_config: {sharding_strategy: HYBRID_SHARD}", 4),
              HasSubstr("E046 fsdp.yaml:1:34: 'sharding_strategy: "
                        "HYBRID_SHARD' needs mesh: {dp_replicate: N}"));
  EXPECT_THAT(refusal("fsdp_config: {sharding_strategy: FULL_SHARD}\n"
                      "mesh: {dp_replicate: 2}",
                      4),
              HasSubstr("write HYBRID_SHARD"));
  EXPECT_THAT(refusal("fsdp_config: {sharding_strategy: NO_SHARD}\n"
                      "mesh: {dp_shard: 4}"),
              HasSubstr("contradicts the mesh"));
  EXPECT_THAT(refusal("fsdp_config: {sharding_strategy: 1, "
                      "reshard_after_forward: true}",
                      4),
              HasSubstr("say the same; keep one"));
}

TEST(Config, SuggestsTheNearestKey) {
  EXPECT_EQ(refusal("mesh: {dp_shard: 2}\nfsdp_config:\n"
                    "  reshard_after_foward: true"),
            "E042 fsdp.yaml:3:3: unknown key 'reshard_after_foward' in "
            "fsdp_config; did you mean 'reshard_after_forward'?");
  EXPECT_EQ(refusal("optimiser: {name: sgd}"),
            "E042 fsdp.yaml:1:1: unknown key 'optimiser'; did you mean "
            "'optimizer'?");
  EXPECT_EQ(refusal("reshard_after_forward: true"),
            "E042 fsdp.yaml:1:1: unknown key 'reshard_after_forward'; it "
            "belongs into fsdp_config");
  EXPECT_THAT(refusal("xyzzy: 1"), HasSubstr("expected one of fsdp_version"));
}

TEST(Config, SaysWhichTypeWasExpected) {
  EXPECT_EQ(refusal("mesh: {dp_shard: two}"),
            "E043 fsdp.yaml:1:18: 'dp_shard': expected a whole number, found "
            "the string 'two'");
  EXPECT_EQ(refusal("mesh: 4"),
            "E043 fsdp.yaml:1:7: 'mesh': expected a map of keys and values, "
            "found the number 4");
  EXPECT_THAT(refusal("- a"), HasSubstr("E043"));
  EXPECT_THAT(refusal("mesh: {dp_shard: \"2\"}"), HasSubstr("the string '2'"));
  EXPECT_THAT(refusal("mesh: {dp_shard: 2.5}"), HasSubstr("the number 2.5"));
  EXPECT_THAT(refusal("optimizer: adamw_8bit"), HasSubstr("{name: adamw"));
  EXPECT_THAT(refusal("optimizer: {lr: fast}"),
              HasSubstr("'lr': expected a number"));
  EXPECT_THAT(refusal("optimizer: {betas: 0.9}"), HasSubstr("list of two"));
  EXPECT_THAT(refusal("fsdp_config: {offload_params: 3}"),
              HasSubstr("true or false"));
  EXPECT_THAT(refusal("fsdp_config: {reshard_after_forward: often}"),
              HasSubstr("true, false or a number of ranks"));
  EXPECT_THAT(refusal("fsdp_config: {transformer_layer_cls_to_wrap: {a: b}}"),
              HasSubstr("a name or a list"));
  EXPECT_THAT(refusal("seed: [1]"), HasSubstr("a list"));
}

TEST(Config, RefusesValuesOutOfRange) {
  for (const char *text :
       {"mesh: {dp_shard: 0}",
        "mesh: {dp_shard: -2}",
        "mesh: {dp_shard: 99999999}",
        "mesh: {dp_replicate: 0}",
        "mesh: {dp_replicate: 99999999}",
        "fsdp_config: {reshard_after_forward: 0}",
        "mesh: {dp_shard: 4}\nfsdp_config: {reshard_after_forward: 3}",
        "optimizer: {lr: -1}",
        "optimizer: {lr: .inf}",
        "optimizer: {lr: .nan}",
        "optimizer: {betas: [0.9, 1.0]}",
        "optimizer: {betas: [-0.1, 0.9]}",
        "optimizer: {eps: -1}",
        "optimizer: {name: sgd, momentum: -1}",
        "optimizer: {name: lion}",
        "optimizer: {nesterov: true}",
        "optimizer: {name: sgd, nesterov: true}",
        "optimizer: {groups: [{params: a, momentum: 1}]}",
        "optimizer: {name: sgd, groups: [{params: a, nesterov: true}]}",
        "optimizer: {groups: [{params: 'a|b'}]}",
        "optimizer: {groups: [{params: a, lr: -1}]}",
        "grad_norm_type: 3",
        "grad_norm_type: -.inf",
        "lr_scheduler: cosin",
        "lr_scheduler: {name: constant, warmup_steps: 3}",
        "lr_scheduler: {name: linear, warmup_steps: 3, total_steps: 2}",
        "lr_scheduler: {name: linear, warmup_steps: 3, warmup_ratio: 0.1}",
        "lr_scheduler: {name: linear, warmup_ratio: 1.5}",
        "lr_scheduler: {name: linear, total_steps: 0}",
        "lr_scheduler: {name: linear, warmup_steps: -1}",
        "lr_scheduler: {name: cosine, min_lr: 1}",
        "lr_scheduler: {name: constant_with_warmup, min_lr: 1.0e-5}",
        "fsdp_config: {buckets: {a: x, 'b=c': y}}",
        "fsdp_config: {sharding_strategy: 6}",
        "fsdp_config: {sharding_strategy: FULL}",
        "learning_rate: 1\noptimizer: {lr: 1}",
        "fsdp_config: {fsdp_min_num_params: 3, min_num_params: 3}",
        "num_processes: 0",
        "optimizer: {name: sgd, betas: [0.1, 0.1]}",
        "optimizer: {momentum: 0.9}",
        "max_grad_norm: 0",
        "max_grad_norm: -1",
        "gradient_accumulation_steps: 0",
        "seed: -1",
        "device: tpu",
        "fsdp_config: {auto_wrap_policy: SOMETIMES}",
        "fsdp_config: {min_num_params: 0}",
        "seed: 1\nseed: 2",
        "fsdp_config: {transformer_layer_cls_to_wrap: 'A,,B'}"})
    EXPECT_THAT(refusal(text), HasSubstr("E044 fsdp.yaml:")) << text;
  EXPECT_THAT(refusal("fsdp_config: {auto_wrap_policy: TRANSFORMER_WRAP}"),
              HasSubstr("did you mean 'TRANSFORMER_BASED_WRAP'?"));
}

TEST(Config, TiesPolicyAndItsKeysTogether) {
  std::string mesh = "mesh: {dp_shard: 2}\nfsdp_config: ";
  EXPECT_THAT(refusal(mesh + "{auto_wrap_policy: TRANSFORMER_BASED_WRAP}"),
              HasSubstr("E046"));
  EXPECT_THAT(refusal(mesh + "{transformer_layer_cls_to_wrap: Block}"),
              HasSubstr("E044"));
  EXPECT_THAT(refusal(mesh + "{auto_wrap_policy: NO_WRAP, min_num_params: 3}"),
              HasSubstr("E044"));
  Config config =
      parse(mesh + "{auto_wrap_policy: SIZE_BASED_WRAP, min_num_params: 1_000}")
          .config;
  EXPECT_EQ(config.wrapPolicy, WrapPolicy::Size);
  EXPECT_EQ(config.minParams, 1000);
  EXPECT_THAT(parse(mesh + "{auto_wrap_policy: TRANSFORMER_BASED_WRAP, "
                           "transformer_layer_cls_to_wrap: 'A, B'}")
                  .config.wrapClasses,
              ElementsAre("A", "B"));
}

TEST(Config, ReadsMicroBatches) {
  const std::string mesh = "mesh: {dp_shard: 2}\n";
  Config config = parse(mesh).config;
  EXPECT_EQ(config.microBatches, 1);
  EXPECT_EQ(config.sync, Sync::Each);
  EXPECT_FALSE(config.keepGathered);
  const std::string several = mesh + "gradient_accumulation_steps: 4\n";
  config = parse(several + "fsdp_config: {gradient_sync: last}").config;
  EXPECT_EQ(config.microBatches, 4);
  EXPECT_EQ(config.sync, Sync::Last);
  config = parse(several + "fsdp_config: {gradient_sync: all_reduce_last, "
                           "reshard_after_forward: false, "
                           "reshard_after_backward: false}")
               .config;
  EXPECT_EQ(config.sync, Sync::AllReduceLast);
  EXPECT_TRUE(config.keepGathered);
  for (const char *text :
       {"{gradient_sync: often}", "{reshard_after_backward: false}",
        "{reshard_after_forward: true, "
        "reshard_after_backward: false}"})
    EXPECT_THAT(refusal(several + "fsdp_config: " + text),
                HasSubstr("E044 fsdp.yaml:"))
        << text;
  LoadedConfig alone = parse(mesh + "fsdp_config: {gradient_sync: last}");
  ASSERT_EQ(alone.notes.size(), 1u);
  EXPECT_THAT(alone.notes[0], HasSubstr("one micro-batch a step"));
}

TEST(Config, ReadsDevice) {
  const std::string mesh = "mesh: {dp_shard: 1}\n";
  EXPECT_EQ(parse(mesh).config.target.describe(), "cpu");
  EXPECT_EQ(parse(mesh + "device: cuda").config.target.describe(),
            "cuda:sm_90");
  EXPECT_EQ(
      parse(mesh + "device: cuda\ncuda_arch: sm_100").config.target.describe(),
      "cuda:sm_100");
  for (const char *arch : {"90", "sm_", "sm_9a", "sm_70", "sm_130"})
    EXPECT_THAT(refusal(mesh + "cuda_arch: '" + arch + "'"), HasSubstr("E044"))
        << arch;
}

TEST(Config, ComputesExactlyUnlessToldOtherwise) {
  const std::string gpu = "mesh: {dp_shard: 1}\ndevice: cuda\n";
  EXPECT_FALSE(parse(gpu).config.arithmetic);
  std::optional<plan::ArithmeticT> found =
      parse(gpu + "tf32: true\n"
                  "reduced_precision_reduction: true\n"
                  "fp16_accumulation: true")
          .config.arithmetic;
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->tf32);
  EXPECT_TRUE(found->reduced_precision_reduction);
  EXPECT_TRUE(found->fp16_accumulation);
  // As configs of other tools say it.
  EXPECT_TRUE(parse(gpu + "tf32: auto").config.arithmetic->tf32);
  EXPECT_FALSE(parse(gpu + "tf32:").config.arithmetic);
  EXPECT_THAT(refusal(gpu + "tf32: fast"), HasSubstr("'tf32': expected "));
  LoadedConfig onHost = parse("mesh: {dp_shard: 1}\ntf32: true");
  EXPECT_FALSE(onHost.config.arithmetic);
  EXPECT_THAT(onHost.notes, ElementsAre("fsdp.yaml:2:7: 'tf32' has no effect "
                                        "with device: cpu"));
}

TEST(Config, ReadsWhoDividesGradients) {
  const std::string begin = "mesh: {dp_shard: 2}\nfsdp_config: ";
  EXPECT_EQ(parse(begin + "{}").config.divideInOptimizer, std::nullopt);
  EXPECT_EQ(
      parse(begin + "{gradient_division: optimizer}").config.divideInOptimizer,
      true);
  EXPECT_EQ(
      parse(begin + "{gradient_division: reduction}").config.divideInOptimizer,
      false);
  EXPECT_THAT(refusal(begin + "{gradient_division: rank}"),
              HasSubstr("'gradient_division': expected "));
  EXPECT_THAT(refusal(begin + "{gradient_division: optimizer, "
                              "force_sum_reduction: true}"),
              HasSubstr("leave one of them out"));
}

TEST(Config, ScalesTheLoss) {
  const std::string mesh = "mesh: {dp_shard: 2}\n";
  EXPECT_FALSE(parse(mesh).config.lossScale);
  Config dynamic = parse(mesh + "loss_scale: dynamic").config;
  ASSERT_TRUE(dynamic.lossScale);
  EXPECT_EQ(dynamic.lossScale->init, 65536);
  EXPECT_EQ(dynamic.lossScale->growthInterval, 2000);
  // Its overflows are no reason to stop.
  EXPECT_EQ(dynamic.onNonFinite, plan::NonFinite::skip);
  Config fixed = parse(mesh + "loss_scale: 1024").config;
  EXPECT_EQ(fixed.lossScale->init, 1024);
  EXPECT_EQ(fixed.lossScale->growthInterval, 0);
  EXPECT_EQ(fixed.onNonFinite, plan::NonFinite::stop);
  Config own = parse(mesh + "loss_scale: {init: 8, growth_factor: 4, "
                            "backoff_factor: 0.25, growth_interval: 10}")
                   .config;
  EXPECT_EQ(own.lossScale->init, 8);
  EXPECT_EQ(own.lossScale->growthFactor, 4);
  EXPECT_EQ(own.lossScale->backoffFactor, 0.25);
  EXPECT_EQ(own.lossScale->growthInterval, 10);
  for (const char *wrong :
       {"loss_scale: 0", "loss_scale: -1", "loss_scale: 1.0e+60",
        "loss_scale: static", "loss_scale: {growth_factor: 1}",
        "loss_scale: {backoff_factor: 1}", "loss_scale: {growth_interval: 0}",
        "loss_scale: {growth_interval: 16777217}"})
    EXPECT_THAT(refusal(mesh + wrong), HasSubstr("expected")) << wrong;
  EXPECT_THAT(refusal(mesh + "loss_scale: dynamic\non_nonfinite: stop"),
              HasSubstr("E044 fsdp.yaml:3:15: 'on_nonfinite: stop' does not go "
                        "with a loss scale that changes"));
  // As Accelerate, transformers and Axolotl say it.
  for (const char *text : {"mixed_precision: fp16", "fp16: true"}) {
    LoadedConfig foreign = parse(mesh + text);
    EXPECT_EQ(foreign.config.precision.policy.paramDtype, "float16");
    ASSERT_TRUE(foreign.config.lossScale) << text;
    EXPECT_EQ(foreign.config.lossScale->growthInterval, 2000);
    EXPECT_THAT(foreign.notes,
                ::testing::Contains(HasSubstr("with loss_scale: dynamic")));
  }
  EXPECT_FALSE(parse(mesh + "fp16: false").config.lossScale);
}

TEST(Config, ReadsReplicas) {
  Config config = parse("mesh: {dp_replicate: 2, dp_shard: 3}").config;
  EXPECT_EQ(config.dpReplicate, 2);
  EXPECT_EQ(config.dpShard, 3);
  for (const char *text :
       {"mesh: {dp_replicate: 2, dp_shard: -1}", "mesh: {dp_replicate: 2}"})
    EXPECT_EQ(parse(text, 6).config.dpShard, 3) << text;
  EXPECT_EQ(parse("mesh: {dp_replicate: 6}", 6).config.dpShard, 1);
  EXPECT_THROW(parse("mesh: {dp_replicate: 4}", 6), Error);
  EXPECT_THROW(parse("mesh: {dp_replicate: 2, dp_shard: 6}", 6), Error);
}

TEST(Config, ReadsRanksToReshardTo) {
  auto parseReshard = [](const char *value) {
    return parse(std::string("mesh: {dp_shard: 4}\nfsdp_config: "
                             "{reshard_after_forward: ") +
                 value + "}");
  };
  Config config = parseReshard("2").config;
  EXPECT_EQ(config.reshard, Reshard::All);
  EXPECT_EQ(config.reshardRanks, 2);
  LoadedConfig kept = parseReshard("1");
  EXPECT_EQ(kept.config.reshard, Reshard::None);
  EXPECT_EQ(kept.notes.size(), 1u);
}

TEST(Config, ReadsIgnoredParameters) {
  Config config = parse("mesh: {dp_shard: 2}\nfsdp_config: {ignored_params: "
                        "['*.bias', norm.*], reduce_ignored_params: false}")
                      .config;
  EXPECT_THAT(config.ignoredParams, ElementsAre("*.bias", "norm.*"));
  EXPECT_FALSE(config.reduceIgnoredParams);
}

TEST(Config, TakesAcceleratesPrecision) {
  for (const char *text :
       {"mixed_precision: bf16", "bf16: true", "bf16: auto"}) {
    LoadedConfig loaded = parse(text, 2);
    const PrecisionPolicy &policy = loaded.config.precision.policy;
    EXPECT_EQ(policy.paramDtype, "bfloat16") << text;
    EXPECT_EQ(policy.reduceDtype, "bfloat16") << text;
    EXPECT_EQ(policy.outputDtype, "bfloat16") << text;
    EXPECT_EQ(loaded.notes.size(), 2u) << text;
  }
  EXPECT_THAT(refusal("mixed_precision: fp8"), HasSubstr("E043"));
  EXPECT_THAT(refusal("bf16: true\nfsdp_config: {mixed_precision: "
                      "{param_dtype: bfloat16}}"),
              HasSubstr("say the same"));
}

TEST(Config, ReadsReshardOfSomeBuckets) {
  const std::string begin = "mesh: {dp_shard: 4}\nfsdp_config: {overrides: [";
  Config config =
      parse(begin + "{modules: layers.0, reshard_after_forward: false}, "
                    "{modules: 'layers.*', reshard_after_forward: 2}]}")
          .config;
  ASSERT_EQ(config.overrides.size(), 2u);
  EXPECT_EQ(config.overrides[0].reshard, "false");
  EXPECT_EQ(config.overrides[1].reshard, "2");
  EXPECT_THAT(refusal(begin + "{modules: a, reshard_after_forward: often}]}"),
              HasSubstr("E043"));
}

TEST(Config, ReadsShardDims) {
  const std::string mesh = "mesh: {dp_shard: 2}\nfsdp_config: ";
  EXPECT_THAT(parse(mesh + "{shard_dims: {'*.weight': 1, head.*: largest}}")
                  .config.shardDims,
              ElementsAre("*.weight=1", "head.*=largest"));
  EXPECT_THAT(refusal(mesh + "{shard_dims: {a: -1}}"), HasSubstr("E044"));
  EXPECT_THAT(refusal(mesh + "{shard_dims: {a: wide}}"), HasSubstr("E043"));
  EXPECT_THAT(refusal(mesh + "{shard_dims: [1]}"), HasSubstr("E043"));
}

TEST(Config, OffloadsNothingToTheHostThatItIsOn) {
  LoadedConfig loaded =
      parse("mesh: {dp_shard: 2}\nfsdp_config: {offload_params: true}");
  ASSERT_EQ(loaded.notes.size(), 1u);
  EXPECT_THAT(loaded.notes[0], HasSubstr("no effect with device: cpu"));
}

TEST(Config, ReadsPrefetch) {
  const std::string mesh = "mesh: {dp_shard: 2}\n";
  EXPECT_EQ(parse(mesh).config.prefetch, 1);
  EXPECT_EQ(parse(mesh + "fsdp_config: {prefetch: 0}").config.prefetch, 0);
  EXPECT_THAT(refusal(mesh + "fsdp_config: {prefetch: -1}"), HasSubstr("E044"));
}

TEST(Config, RefusesWhatIsNotThere) {
  for (const char *text :
       {"fsdp_version: 1",
        "mesh: {dp_shard: 2}\ndevice: cuda\nfsdp_config: {offload_params: "
        "true}",
        "fsdp_config: {mixed_precision: {buffer_dtype: float32}}",
        "fsdp_config: {activation_checkpointing: true}",
        "tensor_parallel_size: 2", "load_in_4bit: true", "load_in_8bit: true",
        "adapter: lora", "weight_decay: 0.1", "gradient_checkpointing: true",
        "optimizer: {name: sgd, dampening: 0.5}", "dp_shard_size: 4",
        "optimizer: {amsgrad: true}",
        "optimizer: {groups: [{params: a, maximize: true}]}"})
    EXPECT_THAT(refusal(text), HasSubstr("E045 fsdp.yaml:")) << text;
  EXPECT_THAT(
      refusal("fsdp_config: {mixed_precision: {buffer_dtype: float32}}"),
      HasSubstr("'buffer_dtype' cannot be had: buffers keep"));
}

TEST(Config, ReadsPrecision) {
  const std::string mesh = "mesh: {dp_shard: 2}\nfsdp_config: ";
  EXPECT_TRUE(parse(mesh + "{mixed_precision: {}}").config.precision.isEmpty());
  EXPECT_TRUE(parse(mesh + "{mixed_precision: {param_dtype: null}}")
                  .config.precision.isEmpty());
  EXPECT_FALSE(parse(mesh + "{overrides: [{modules: a, mixed_precision: {}}]}")
                   .config.precision.isEmpty());
  EXPECT_THAT(refusal(mesh + "{mixed_precision: {param_dtype: bf16}}"),
              HasSubstr("'param_dtype': expected "));
  EXPECT_THAT(refusal(mesh + "{mixed_precision: {param_type: bfloat16}}"),
              HasSubstr("did you mean 'param_dtype'?"));
  EXPECT_THAT(refusal(mesh + "{overrides: {modules: a}}"),
              HasSubstr("E043 fsdp.yaml:2:"));
  EXPECT_THAT(refusal(mesh + "{overrides: [{mixed_precision: {}}]}"),
              HasSubstr("an override needs modules"));
  EXPECT_THAT(refusal(mesh + "{gradient_divide_factor: 0}"),
              HasSubstr("expected a number above 0"));
}

TEST(Config, AcceptsValuesThatAskForNothing) {
  LoadedConfig loaded = parse("tensor_parallel_size: 1\nload_in_4bit: false\n"
                              "load_in_8bit: no\nadapter:\n"
                              "mixed_precision: 'no'\ndeepspeed: null\n"
                              "fsdp_config: {activation_checkpointing: false}\n"
                              "learning_rate:\n",
                              2);
  EXPECT_TRUE(loaded.notes.empty());
}

TEST(Config, NotesForeignKeysOnce) {
  LoadedConfig loaded =
      parse("base_model: meta/x\nsequence_len: 4096\n"
            "datasets: [{path: a, type: b}]\noutput_dir: ./out\n"
            "fsdp_config: {state_dict_type: FULL_STATE_DICT}\n",
            2);
  ASSERT_EQ(loaded.notes.size(), 5u);
  EXPECT_THAT(loaded.notes[0], HasSubstr("fsdp.yaml:1:1: 'base_model'"));
  EXPECT_THAT(loaded.notes[4], HasSubstr("fsdp.yaml:5:15: 'state_dict_type'"));
}

TEST(Config, ReadsData) {
  Config config =
      parseConfig("data: {tokens: [a_*.bin, /b/c.bin], format: llm.c, "
                  "dtype: uint32, inputs: [x, mask], targets: y, shuffle: "
                  "true, seed: 7, epochs: 3, drop_last: false}\n"
                  "eval: {data: [d.bin, e.bin], every: 10, batches: 4}\n",
                  "runs/fsdp.yaml", 2)
          .config;
  ASSERT_TRUE(config.data && config.validation);
  const plan::DataT &data = config.data->data;
  EXPECT_THAT(data.files, ElementsAre("runs/a_*.bin", "/b/c.bin"));
  EXPECT_EQ(data.format, plan::TokenFormat::llm_c);
  EXPECT_EQ(data.dtype, plan::DType::u32);
  EXPECT_THAT(data.inputs, ElementsAre("x", "mask"));
  EXPECT_THAT(data.targets, ElementsAre("y"));
  EXPECT_TRUE(data.shuffle);
  EXPECT_EQ(data.seed, 7u);
  EXPECT_EQ(data.epochs, 3u);
  EXPECT_FALSE(data.drop_last);
  EXPECT_THAT(config.validation->files,
              ElementsAre("runs/d.bin", "runs/e.bin"));
  EXPECT_EQ(config.validation->every, 10u);
  EXPECT_EQ(config.validation->batches, 4u);
  config = parse("data: {samples: a.safetensors}", 2).config;
  EXPECT_THAT(config.data->data.files, ElementsAre("a.safetensors"));
  EXPECT_TRUE(config.data->data.drop_last);
  EXPECT_FALSE(config.validation);
  // Before the section that it needs.
  EXPECT_TRUE(
      parse("eval: {data: a.bin}\ndata: {inputs: x}", 2).config.validation);
  EXPECT_TRUE(parse("eval: {data: a.safetensors}", 2).config.validation);
}

TEST(Config, RefusesDataThatSaysTooMuchOrTooLittle) {
  for (auto [text, expected] :
       {std::pair("data: {tokens: a.bin}", "E046 fsdp.yaml:1:7: 'data' has "
                                           "'tokens' and no 'inputs'"),
        std::pair("data: {tokens: a.bin, inputs: x, samples: b.safetensors}",
                  "has both 'tokens' and 'samples'"),
        std::pair("data: {samples: b.safetensors, dtype: uint16}",
                  "E044 fsdp.yaml:1:39: 'dtype' says how 'tokens' are read"),
        std::pair("data: {samples: b.bin}", "expected a .safetensors file"),
        std::pair("data: {tokens: b.safetensors, inputs: x}",
                  "name it with 'samples'"),
        std::pair("data: {tokens: [], inputs: x}", "a path or a list of paths"),
        std::pair("data: {targets: x}", "E046"),
        std::pair("data: {inputs: [x, y], targets: y}",
                  "'y' is among 'inputs' and 'targets'"),
        std::pair("data: {inputs: x, format: nanogpd}",
                  "did you mean 'nanogpt'?"),
        std::pair("data: {inputs: x, dtype: int16}",
                  "expected one of uint16, uint32"),
        std::pair("data: {shufle: true}",
                  "unknown key 'shufle' in data; did you mean 'shuffle'?"),
        std::pair("data: {epochs: 0}", "expected a number from 1"),
        std::pair("data: {seed: -1}", "expected a number from 0"),
        std::pair("eval: {every: 2}",
                  "E046 fsdp.yaml:1:7: 'eval' has no 'data'"),
        std::pair("eval: {data: a.bin}", "no key 'inputs' of 'data'"),
        std::pair("eval: {data: [a.safetensors, b.bin]}",
                  "expected token files, or one safetensors file"),
        std::pair("eval: {data: a.safetensors, every: 0}",
                  "expected a number from 1"),
        std::pair("eval: {data: a.safetensors, evry: 1}",
                  "did you mean 'every'?"),
        std::pair("shuffle: true", "it belongs into data")})
    EXPECT_THAT(refusal(text, 2), HasSubstr(expected)) << text;
  EXPECT_THAT(parse("data: {drop_last: true}", 2).notes,
              ElementsAre(HasSubstr("no effect without 'epochs'")));
}

TEST(Config, RefusesBrokenYaml) {
  for (const char *text : {"a: [", "a: b: c", "\t- x", "{", "%YAML 9", "*x",
                           "a: &b [*b", "? {a: b}\n: c", "[[[["})
    EXPECT_THAT(refusal(text), HasSubstr("fsdp.yaml")) << text;
  EXPECT_THAT(refusal("mesh: {dp_shard: 2"), HasSubstr("E041 fsdp.yaml:"));
}

TEST(Config, EveryKeyIsDocumented) {
  std::ifstream file(FSDP_SOURCE_DIR "/docs/Config.md");
  std::stringstream text;
  text << file.rdbuf();
  std::string section;
  for (const ConfigKey &key : listConfigKeys()) {
    std::string path = key.section.empty() ? std::string(key.name)
                                           : std::string(key.section) + "." +
                                                 std::string(key.name);
    EXPECT_THAT(text.str(), HasSubstr("| `" + path + "` |"));
  }
}

TEST(Nearest, FindsMisspeltNames) {
  static constexpr std::string_view names[] = {"lr", "momentum", "betas"};
  EXPECT_EQ(findNearest("momentun", names), "momentum");
  EXPECT_EQ(findNearest("Beta", names), "betas");
  EXPECT_EQ(findNearest("something_else", names), "");
  EXPECT_EQ(findNearest("", names), "");
}
} // namespace
