//===- ConfigTest.cpp - Config files, right and wrong ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Schedule.h"
#include "support/Nearest.h"
#include "test/unit/tools/fsdp-opt/config/ConfigText.h"

using namespace fsdp;
using namespace fsdp::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

namespace {

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
  EXPECT_EQ(config.optimizer.kind, OptimizerKind::adam);
  EXPECT_DOUBLE_EQ(config.optimizer.lr, 3e-4);
  EXPECT_DOUBLE_EQ(config.optimizer.getNumbers()[OptimizerNumber::beta1], 0.8);
  EXPECT_DOUBLE_EQ(config.optimizer.getNumbers()[OptimizerNumber::beta2], 0.95);
  EXPECT_DOUBLE_EQ(config.optimizer.getNumbers()[OptimizerNumber::eps], 1e-6);
  EXPECT_DOUBLE_EQ(config.optimizer.getNumbers()[OptimizerNumber::weight_decay],
                   0.1);
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
  EXPECT_EQ(config.optimizer.kind, OptimizerKind::adamw);
  EXPECT_DOUBLE_EQ(config.optimizer.getNumbers()[OptimizerNumber::weight_decay],
                   0.01);
  EXPECT_DOUBLE_EQ(
      parse("mesh: {dp_shard: 2}\noptimizer: {lr: 1, name: sgd}")
          .config.optimizer.getNumbers()[OptimizerNumber::weight_decay],
      0.0);
  // A key before the name keeps its value.
  EXPECT_DOUBLE_EQ(
      parse("mesh: {dp_shard: 2}\noptimizer: {weight_decay: 0.5, name: adamw}")
          .config.optimizer.getNumbers()[OptimizerNumber::weight_decay],
      0.5);
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
  EXPECT_EQ(config.optimizer.getNumbers()[OptimizerNumber::nesterov], 1);
  ASSERT_EQ(config.optimizer.groups.size(), 2u);
  const OptimizerGroup &first = config.optimizer.groups[0];
  EXPECT_THAT(first.patterns, ElementsAre("*.bias", "*norm*"));
  EXPECT_THAT(first.numbers,
              ElementsAre(Pair(OptimizerNumber::weight_decay, 0.0)));
  EXPECT_EQ(first.lr, std::nullopt);
  const OptimizerGroup &second = config.optimizer.groups[1];
  EXPECT_THAT(second.patterns, ElementsAre("head.*"));
  EXPECT_EQ(second.lr, 1e-4);
  EXPECT_THAT(second.numbers,
              ElementsAre(Pair(OptimizerNumber::momentum, 0.5),
                          Pair(OptimizerNumber::nesterov, 0.0)));
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
  EXPECT_EQ(kindOf(schedule("lr_scheduler: cosine")), ScheduleKind::cosine);
  plan::ScheduleT full =
      schedule("lr_scheduler: {name: cosine_with_min_lr, warmup_steps: 10, "
               "total_steps: 100, min_lr: 1.0e-5}");
  EXPECT_EQ(kindOf(full), ScheduleKind::cosine);
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

TEST(Config, SuggestsTheNearestKey) {
  EXPECT_EQ(refusal("mesh: {dp_shard: 2}\nfsdp_config:\n"
                    "  reshard_after_foward: true"),
            "E042 fsdp.yaml:3:3: unknown key 'reshard_after_foward' in "
            "fsdp_config; did you mean 'reshard_after_forward'?");
  EXPECT_EQ(refusal("optimiser: {name: sgd}", 2),
            "E042 fsdp.yaml:1:1: unknown key 'optimiser'; did you mean "
            "'optimizer'?");
  EXPECT_EQ(refusal("reshard_after_forward: true", 2),
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
  EXPECT_THAT(refusal("optimizer: fast"), HasSubstr("{name: adamw"));
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
        "fsdp_config: {min_num_params: -1}",
        "seed: 1\nseed: 2",
        "fsdp_config: {transformer_layer_cls_to_wrap: 'A,,B'}"})
    EXPECT_THAT(refusal(text), HasSubstr("E044 fsdp.yaml:")) << text;
  EXPECT_THAT(refusal("fsdp_config: {auto_wrap_policy: TRANSFORMER_WRAP}"),
              HasSubstr("did you mean 'TRANSFORMER_BASED_WRAP'?"));
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

TEST(Config, RepeatsBitsOnGpusIfToldTo) {
  const std::string mesh = "mesh: {dp_shard: 1}\n";
  EXPECT_FALSE(parse(mesh + "device: cuda").config.target.isDeterministic);
  // The second is transformers' name.
  for (const char *key : {"deterministic: true", "full_determinism: true"}) {
    LoadedConfig onGpu = parse(mesh + "device: cuda\n" + key);
    ASSERT_TRUE(onGpu.config.arithmetic) << key;
    EXPECT_TRUE(onGpu.config.arithmetic->deterministic) << key;
    EXPECT_TRUE(onGpu.config.target.isDeterministic) << key;
    // There it is so anyway.
    LoadedConfig onHost = parse(mesh + key);
    EXPECT_FALSE(onHost.config.arithmetic) << key;
    EXPECT_FALSE(onHost.config.target.isDeterministic) << key;
  }
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
  EXPECT_FALSE(found->deterministic);
  // As configs of other tools say it.
  EXPECT_TRUE(parse(gpu + "tf32: auto").config.arithmetic->tf32);
  EXPECT_FALSE(parse(gpu + "tf32:").config.arithmetic);
  EXPECT_THAT(refusal(gpu + "tf32: fast"), HasSubstr("'tf32': expected "));
  LoadedConfig onHost = parse("mesh: {dp_shard: 1}\ntf32: true");
  EXPECT_FALSE(onHost.config.arithmetic);
  EXPECT_THAT(onHost.notes, ElementsAre("fsdp.yaml:2:7: 'tf32' has no effect "
                                        "with device: cpu"));
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

TEST(Config, RefusesBrokenYaml) {
  for (const char *text : {"a: [", "a: b: c", "\t- x", "{", "%YAML 9", "*x",
                           "a: &b [*b", "? {a: b}\n: c", "[[[["})
    EXPECT_THAT(refusal(text), HasSubstr("fsdp.yaml")) << text;
  EXPECT_THAT(refusal("mesh: {dp_shard: 2"), HasSubstr("E041 fsdp.yaml:"));
}

TEST(Nearest, FindsMisspeltNames) {
  static constexpr std::string_view names[] = {"lr", "momentum", "betas"};
  EXPECT_EQ(findNearest("momentun", names), "momentum");
  EXPECT_EQ(findNearest("Beta", names), "betas");
  EXPECT_EQ(findNearest("something_else", names), "");
  EXPECT_EQ(findNearest("", names), "");
}

TEST(Config, NumbersThatNoArtifactHoldsAreRefused) {
  for (const char *wrong :
       {"gradient_accumulation_steps: 9223372036854775807",
        "gradient_accumulation_steps: 4294967297", "num_processes: 4294967297",
        "mesh: {dp_replicate: 1048576, dp_shard: 2}",
        "mesh: {dp_shard: 1048577}", "fsdp_config: {prefetch: 4294967296}",
        "fsdp_config: {reshard_after_forward: 4294967297}",
        "fsdp_config: {shard_dims: {\"*\": 4294967296}}",
        "mesh: {dp_shard: 2}\nlr_scheduler: {name: linear, total_steps: "
        "9223372036854775807}",
        "eval: {data: x.safetensors, every: 9223372036854775807}",
        "data: {samples: x.safetensors, epochs: 9223372036854775807}"})
    EXPECT_THAT(refusal(wrong), HasSubstr("expected")) << wrong;
}

} // namespace
