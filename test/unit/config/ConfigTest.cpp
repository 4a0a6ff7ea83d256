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
  reshard_after_forward: true
  mixed_precision: {}
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
  EXPECT_THAT(refusal("optimizer: adamw_torch"), HasSubstr("{name: adamw"));
  EXPECT_THAT(refusal("optimizer: {lr: fast}"),
              HasSubstr("'lr': expected a number"));
  EXPECT_THAT(refusal("optimizer: {betas: 0.9}"), HasSubstr("list of two"));
  EXPECT_THAT(refusal("fsdp_config: {offload_params: 3}"),
              HasSubstr("true or false"));
  EXPECT_THAT(refusal("fsdp_config: {reshard_after_forward: often}"),
              HasSubstr("true or false"));
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
        "optimizer: {lr: -1}",
        "optimizer: {lr: .inf}",
        "optimizer: {lr: .nan}",
        "optimizer: {betas: [0.9, 1.0]}",
        "optimizer: {betas: [-0.1, 0.9]}",
        "optimizer: {eps: -1}",
        "optimizer: {name: sgd, momentum: -1}",
        "optimizer: {name: lion}",
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

TEST(Config, RefusesWhatIsNotThere) {
  for (const char *text :
       {"fsdp_version: 1", "mesh: {dp_replicate: 2}",
        "gradient_accumulation_steps: 4", "fsdp_config: {offload_params: true}",
        "fsdp_config: {reshard_after_forward: 2}",
        "fsdp_config: {mixed_precision: {param_dtype: bfloat16}}",
        "fsdp_config: {mixed_precision: {buffer_dtype: float32}}",
        "fsdp_config: {activation_checkpointing: true}",
        "tensor_parallel_size: 2", "load_in_4bit: true", "load_in_8bit: true",
        "adapter: lora", "learning_rate: 0.1", "lr_scheduler: cosine",
        "bf16: auto", "mixed_precision: bf16", "gradient_checkpointing: true",
        "optimizer: {name: sgd, nesterov: true}", "dp_shard_size: 4"})
    EXPECT_THAT(refusal(text), HasSubstr("E045 fsdp.yaml:")) << text;
  EXPECT_THAT(
      refusal("fsdp_config: {mixed_precision: {buffer_dtype: float32}}"),
      HasSubstr("'buffer_dtype' cannot be had: buffers keep"));
}

TEST(Config, AcceptsValuesThatAskForNothing) {
  LoadedConfig loaded = parse("tensor_parallel_size: 1\nload_in_4bit: false\n"
                              "load_in_8bit: no\nadapter:\n"
                              "mixed_precision: 'no'\ndeepspeed: null\n"
                              "fsdp_config: {activation_checkpointing: false}\n"
                              "lr_scheduler: constant\n",
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
