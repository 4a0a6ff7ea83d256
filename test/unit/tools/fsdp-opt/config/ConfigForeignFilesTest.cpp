//===- ConfigForeignFilesTest.cpp - Files of other tools, as they are -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Schedule.h"
#include "test/unit/tools/fsdp-opt/config/ConfigText.h"

using namespace fsdp;
using namespace fsdp::test;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

namespace {

/// A file for adapters in the exported model. What stays refused is told by the
/// key that asks for it, where that stands.
TEST(ForeignFiles, TakesAxolotlsQlora) {
  const std::string file = "learning_rate: 0.0002\n"
                           "load_in_4bit: true\n"
                           "adapter: qlora\n"
                           "lora_r: 16\n"
                           "lora_target_linear: true\n"
                           "peft_layers_to_transform: [0, 1]\n"
                           "optimizer: adamw_torch_8bit\n"
                           "fsdp_config:\n"
                           "  fsdp_version: 2\n";
  LoadedConfig loaded = parse(file, 2);
  ASSERT_TRUE(loaded.config.quantize);
  EXPECT_EQ(loaded.config.quantize->kind, QuantizeChoice::Nf4);
  EXPECT_EQ(loaded.config.optimizer.kind, OptimizerKind::adamw);
  EXPECT_EQ(loaded.config.optimizer.stateDType, StateChoice::Int8);
  EXPECT_THAT(loaded.warnings, IsEmpty());
  EXPECT_EQ(refusal(file + "  fsdp_offload_params: true\n", 2),
            "E045 fsdp.yaml:2:15: 'load_in_4bit' is not supported with "
            "'fsdp_offload_params', which moves numbers between memories; "
            "leave one of them out");
  EXPECT_THAT(refusal("optimizer: adamw\nquantize: {}\nload_in_4bit: true\n"
                      "learning_rate: 1\nfp8: true\n",
                      2),
              HasSubstr("expected a map such as {name: adamw, lr: 1.0e-3}"));
  EXPECT_THAT(refusal("load_in_4bit: true\nquantize: {}\nfp8: true\n", 2),
              testing::StartsWith("E045 fsdp.yaml:2:11: 'quantize' is not "
                                  "supported with 'fp8'"));
}

TEST(ForeignFiles, TakesTheNamesOfAdamw) {
  struct Case {
    const char *name;
    bool isInt8;
  };
  for (const Case &each : {Case{"adamw_torch", false},
                           {"adamw_torch_fused", false},
                           {"adamw_torch_8bit", true},
                           {"adamw_8bit", true},
                           {"adamw_bnb_8bit", true},
                           {"paged_adamw_8bit", true},
                           {"paged_adamw_32bit", false}}) {
    LoadedConfig loaded =
        parse(std::string("learning_rate: 1\noptim: ") + each.name, 2);
    EXPECT_EQ(loaded.config.optimizer.kind, OptimizerKind::adamw) << each.name;
    EXPECT_EQ(loaded.config.optimizer.stateDType == StateChoice::Int8,
              each.isInt8)
        << each.name;
    EXPECT_EQ(
        loaded.config.optimizer.getNumbers()[OptimizerNumber::weight_decay], 0)
        << each.name;
    bool isPaged = std::string_view(each.name).starts_with("paged");
    EXPECT_EQ(loaded.notes[0].find("offload_optimizer") != std::string::npos,
              isPaged)
        << loaded.notes[0];
  }
  EXPECT_THAT(refusal("learning_rate: 1\noptim: adamw_torch_4bit", 2),
              HasSubstr("paged_adamw_32bit or sgd as in transformers"));
}

/// `accelerate config` writes a strategy wherever cp_size is above 1.
TEST(ForeignFiles, TakesAcceleratesContextParallelism) {
  const std::string begin = "mixed_precision: bf16\n"
                            "num_processes: 4\n"
                            "fsdp_config:\n"
                            "  fsdp_version: 2\n"
                            "  fsdp_activation_checkpointing: true\n"
                            "  fsdp_activation_checkpointing_offload: true\n"
                            "parallelism_config:\n"
                            "  parallelism_config_cp_size: 2\n"
                            "  parallelism_config_cp_backend: torch\n"
                            "  parallelism_config_dp_shard_size: 2\n"
                            "  parallelism_config_cp_comm_strategy: ";
  LoadedConfig loaded = parse(begin + "alltoall\n");
  EXPECT_EQ(loaded.config.cp, 2);
  EXPECT_EQ(loaded.config.dpShard, 2);
  EXPECT_EQ(loaded.config.rotate, RotateChoice::Ring);
  EXPECT_THAT(loaded.config.offloadActivations, ElementsAre("*"));
  EXPECT_EQ(parse(begin + "allgather\n").config.rotate,
            RotateChoice::AllGather);
  EXPECT_THAT(refusal(begin + "broadcast\n"),
              HasSubstr("fsdp.yaml:11:40: "
                        "'parallelism_config_cp_comm_strategy': expected one "
                        "of"));
}

TEST(ForeignFiles, TakesAxolotlsFloat8) {
  LoadedConfig loaded = parse("fp8: true\n"
                              "fp8_enable_fsdp_float8_all_gather: true\n",
                              2);
  ASSERT_TRUE(loaded.config.float8);
  EXPECT_EQ(loaded.config.float8->recipe, Float8Choice::Tensorwise);
  EXPECT_TRUE(loaded.config.float8->allGather);
  EXPECT_THAT(loaded.notes, ElementsAre(HasSubstr("'fp8' is taken as float8")));
  LoadedConfig own = parse("fp8: true\nfloat8: {modules: [layers.0]}\n", 2);
  EXPECT_THAT(own.config.float8->modules, ElementsAre("layers.0"));
  EXPECT_FALSE(parse("fp8: false\n", 2).config.float8);
  LoadedConfig alone = parse("fp8_enable_fsdp_float8_all_gather: true\n", 2);
  EXPECT_FALSE(alone.config.float8);
  EXPECT_THAT(alone.notes, ElementsAre(HasSubstr("no effect without fp8")));
  EXPECT_EQ(refusal("fp8: true\ndevice: cuda\n", 2).substr(0, 38),
            "E045 fsdp.yaml:1:6: 'fp8' is not suppo");
}

TEST(ForeignFiles, TakesTheLeastRateOfACosine) {
  const std::string begin = "learning_rate: 2.0e-5\nmax_steps: 40\n";
  LoadedConfig loaded =
      parse(begin + "lr_scheduler: cosine\ncosine_min_lr_ratio: 0.1\n", 2);
  EXPECT_DOUBLE_EQ(loaded.config.schedule->min_lr, 2e-6);
  EXPECT_EQ(kindOf(*loaded.config.schedule), ScheduleKind::cosine);
  LoadedConfig before =
      parse("cosine_min_lr_ratio: 0.1\nlr_scheduler: cosine\n" + begin, 2);
  EXPECT_DOUBLE_EQ(before.config.schedule->min_lr, 2e-6);
  LoadedConfig linear =
      parse(begin + "lr_scheduler: linear\ncosine_min_lr_ratio: 0.1\n", 2);
  EXPECT_EQ(linear.config.schedule->min_lr, 0);
  EXPECT_THAT(linear.notes, Contains(HasSubstr("'cosine_min_lr_ratio' has no "
                                               "effect with lr_scheduler: "
                                               "linear")));
  EXPECT_THAT(refusal(begin + "cosine_min_lr_ratio: 0.1\n", 2),
              HasSubstr("'cosine_min_lr_ratio' needs lr_scheduler: cosine"));
  EXPECT_THAT(refusal(begin + "cosine_min_lr_ratio: 2\n", 2),
              HasSubstr("from 0 to 1"));
  EXPECT_THAT(refusal(begin + "lr_scheduler: {name: cosine, min_lr: 1.0e-6}\n"
                              "cosine_min_lr_ratio: 0.1\n",
                      2),
              HasSubstr("say the same"));
}

TEST(ForeignFiles, TakesArgumentsOfASchedule) {
  const std::string begin = "learning_rate: 2.0e-5\nmax_steps: 40\n"
                            "lr_scheduler_type: cosine_with_min_lr\n"
                            "lr_scheduler_kwargs: ";
  EXPECT_DOUBLE_EQ(parse(begin + "{min_lr: 1.0e-6}", 2).config.schedule->min_lr,
                   1e-6);
  EXPECT_DOUBLE_EQ(
      parse(begin + "{min_lr_rate: 0.5}", 2).config.schedule->min_lr, 1e-5);
  EXPECT_THAT(refusal(begin + "{num_cycles: 2}", 2),
              HasSubstr("fsdp.yaml:4:23: 'num_cycles' of lr_scheduler_kwargs "
                        "cannot be had"));
  EXPECT_THAT(refusal("lr_scheduler_kwargs: {min_lr: 0}", 2),
              HasSubstr("lr_scheduler_kwargs need lr_scheduler"));
}

TEST(ForeignFiles, TakesSizesOfTheMeshAtTheTopLevel) {
  LoadedConfig loaded = parse("dp_shard_size: 2\ndp_replicate_size: 1\n"
                              "context_parallel_size: 2\n"
                              "tensor_parallel_size: 2\n");
  EXPECT_EQ(loaded.config.dpShard, 2);
  EXPECT_EQ(loaded.config.cp, 2);
  EXPECT_EQ(loaded.config.tp, 2);
  EXPECT_EQ(loaded.config.getWorldSize(), 8);
  LoadedConfig titan = parse("data_parallel_shard_degree: -1\n"
                             "data_parallel_replicate_degree: 2\n",
                             8);
  EXPECT_EQ(titan.config.dpShard, 4);
  EXPECT_EQ(titan.config.dpReplicate, 2);
  EXPECT_THAT(refusal("dp_shard_size: 2\nmesh: {dp_shard: 2}"),
              HasSubstr("say the same"));
}

TEST(ForeignFiles, PassesOverHowWeightsAreLoaded) {
  LoadedConfig loaded =
      parse("model_quantization_config: Mxfp4Config\n"
            "model_quantization_config_kwargs: {dequantize: true}\n"
            "experimental_skip_move_to_device: true\n"
            "learning_rate: 2.0e-5\n",
            2);
  EXPECT_EQ(loaded.minor.size(), 4u);
  EXPECT_THAT(loaded.notes, IsEmpty());
  EXPECT_THAT(loaded.warnings, IsEmpty());
}

TEST(ForeignFiles, TakesArgumentsOfTheTrainer) {
  const std::string file = "learning_rate: 3.0e-4\n"
                           "max_steps: 100\n"
                           "optim: paged_adamw_8bit\n"
                           "average_tokens_across_devices: true\n"
                           "torch_empty_cache_steps: 50\n"
                           "fsdp: full_shard auto_wrap offload\n"
                           "fsdp_config:\n"
                           "  version: 2\n"
                           "  transformer_layer_cls_to_wrap: "
                           "[LlamaDecoderLayer]\n";
  LoadedConfig loaded = parse(file, 2);
  const Config &config = loaded.config;
  EXPECT_TRUE(config.offloadParams);
  EXPECT_EQ(config.reshard, Reshard::All);
  EXPECT_EQ(config.wrapPolicy, WrapPolicy::Classes);
  EXPECT_THAT(config.wrapClasses, ElementsAre("LlamaDecoderLayer"));
  EXPECT_EQ(config.optimizer.stateDType, StateChoice::Int8);
  EXPECT_THAT(loaded.warnings,
              ElementsAre(HasSubstr("'average_tokens_across_devices' is not "
                                    "taken from here: gradients are means")));
  // No more is told than what cannot be had.
  std::string all =
      refusal(file + "weight_decay: 0.1\n"
                     "lr_scheduler_type: warmup_stable_decay\n"
                     "lr_scheduler_kwargs: {num_decay_steps: 20}\n",
              2);
  EXPECT_THAT(all, HasSubstr("'weight_decay' spares biases and norms"));
  EXPECT_THAT(all, HasSubstr("E044]: fsdp.yaml:11:20: 'lr_scheduler_type': "
                             "expected one of"));
  EXPECT_EQ(std::ranges::count(all, '\n'), 1) << all;
}

TEST(ForeignFiles, WrapsAsFsdpWordsSay) {
  EXPECT_EQ(parse("fsdp: shard_grad_op", 2).config.reshard, Reshard::None);
  LoadedConfig size = parse("fsdp: [full_shard, auto_wrap]\n"
                            "fsdp_config: {min_num_params: 1000}\n",
                            2);
  EXPECT_EQ(size.config.wrapPolicy, WrapPolicy::Size);
  EXPECT_EQ(parse("fsdp: full_shard auto_wrap", 2).config.wrapPolicy,
            WrapPolicy::Blocks);
  LoadedConfig own = parse("fsdp: full_shard offload\n"
                           "fsdp_config: {offload_params: false, "
                           "reshard_after_forward: false}\n",
                           2);
  EXPECT_FALSE(own.config.offloadParams);
  EXPECT_EQ(own.config.reshard, Reshard::None);
  EXPECT_THAT(refusal("fsdp: full_shard\n"
                      "fsdp_config: {transformer_layer_cls_to_wrap: A}",
                      2),
              HasSubstr("needs auto_wrap_policy: TRANSFORMER_BASED_WRAP"));
  EXPECT_THAT(refusal("fsdp: hybrid_shard", 2),
              HasSubstr("mesh: {dp_replicate: N}"));
  EXPECT_THAT(refusal("fsdp: full_shrad", 2), HasSubstr("shard_grad_op"));
}

} // namespace
