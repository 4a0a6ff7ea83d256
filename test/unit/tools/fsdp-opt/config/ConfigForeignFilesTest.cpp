//===- ConfigForeignFilesTest.cpp - Files of other tools, as they are -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Schedule.h"
#include "support/Pattern.h"
#include "test/unit/tools/fsdp-opt/config/ConfigText.h"

using namespace fsdp;
using namespace fsdp::test;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

namespace {

/// Keys of adapters become the config's own. What stays refused is told by the
/// key that asks for it, where that stands.
TEST(ForeignFiles, TakesAxolotlsQlora) {
  const std::string file = "learning_rate: 0.0002\n"
                           "load_in_4bit: true\n"
                           "adapter: qlora\n"
                           "lora_r: 16\n"
                           "lora_target_linear: true\n"
                           "loraplus_lr_ratio: 16\n"
                           "optimizer: adamw_torch_8bit\n"
                           "fsdp_config:\n"
                           "  fsdp_version: 2\n";
  LoadedConfig loaded = parse(file, 2);
  ASSERT_TRUE(loaded.config.quantize);
  EXPECT_EQ(loaded.config.quantize->kind, QuantizeChoice::Nf4);
  EXPECT_EQ(loaded.config.optimizer.kind, OptimizerKind::adamw);
  EXPECT_EQ(loaded.config.optimizer.stateDType, StateChoice::Int8);
  EXPECT_THAT(loaded.warnings, IsEmpty());
  EXPECT_THAT(loaded.notes,
              Contains(HasSubstr("is taken as adapter: {name: lora, r: 16, "
                                 "modules: all-linear, lr_b_ratio: 16}")));
  ASSERT_TRUE(loaded.config.adapter);
  EXPECT_EQ(loaded.config.adapter->request.rank, 16);
  EXPECT_EQ(loaded.config.adapter->ratio, 16);
  EXPECT_THAT(loaded.config.adapter->request.modules, IsEmpty());
  EXPECT_TRUE(loaded.config.adapter->request.yieldsToOwn);
  EXPECT_EQ(loaded.config.adapter->request.obstacle, "");
  EXPECT_EQ(parse(file + "peft_init_lora_weights: eva\n", 2)
                .config.adapter->request.obstacle,
            "fsdp.yaml:10:25: 'peft_init_lora_weights' needs a model that was "
            "exported with such adapters, as docs/examples/lora does: they "
            "start by default, or as 'gaussian', 'pissa' or 'loftq'");
  AdapterRequest asked =
      parse(file + "peft_layers_to_transform: [0, 1]\npeft_use_dora: true\n"
                   "peft_init_lora_weights: pissa_niter_4\n",
            2)
          .config.adapter->request;
  EXPECT_EQ(asked.obstacle, "");
  EXPECT_THAT(asked.layers, ElementsAre(0, 1));
  EXPECT_TRUE(asked.hasMagnitudes);
  EXPECT_EQ(asked.init, AdapterInit::Pissa);
  EXPECT_EQ(asked.iterations, 4);
  EXPECT_THAT(parse("adapter: lora\nlora_r: 4\nlora_target_parameters: "
                    "[mlp.experts.down_proj]\n",
                    2)
                  .config.adapter->request.parameters,
              ElementsAre("mlp.experts.down_proj"));
  std::string factory = "finetuning_type: lora\nlora_rank: 4\n"
                        "pissa_init: true\n";
  EXPECT_EQ(parse(factory, 2).config.adapter->request.iterations, 16);
  EXPECT_EQ(
      parse(factory + "pissa_iter: -1\n", 2).config.adapter->request.iterations,
      0);
  EXPECT_THAT(parse("finetuning_type: lora\nlora_target: q_proj, v_proj\n", 2)
                  .config.adapter->request.modules,
              ElementsAre("q_proj", "v_proj"));
  // One text is a regular expression, as PEFT takes it.
  EXPECT_THAT(parse("adapter: lora\nlora_target_modules: '.*[.](q|v)_proj'", 2)
                  .config.adapter->request.modules,
              ElementsAre("re:.*[.](q|v)_proj"));
  EXPECT_THAT(
      refusal("adapter: lora\nlora_target_modules: '*.q_proj'", 2),
      HasSubstr("E044 fsdp.yaml:2:22: 'lora_target_modules': '*.q_proj' "
                "is no regular expression"));
  LoadedConfig offloaded = parse(file + "  fsdp_offload_params: true\n", 2);
  EXPECT_TRUE(offloaded.config.offloadParams);
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
                           {"adamw_hf", false},
                           {"ao_adamw_8bit", true},
                           {"ao_adamw_4bit", true},
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
    EXPECT_EQ(loaded.config.offloadOptimizer, isPaged) << each.name;
  }
  EXPECT_FALSE(parse("learning_rate: 1\noptim: paged_adamw\n"
                     "fsdp_config: {offload_optimizer: false}",
                     2)
                   .config.offloadOptimizer);
  LoadedConfig four = parse("learning_rate: 1\noptim: adamw_torch_4bit", 2);
  EXPECT_EQ(four.config.optimizer.stateDType, StateChoice::Int8);
  EXPECT_THAT(four.warnings, ElementsAre(HasSubstr("there are none of 4")));
  EXPECT_EQ(parse("learning_rate: 1\noptim: ao_adamw_fp8", 2)
                .config.optimizer.stateDType,
            StateChoice::Float8);
  EXPECT_THAT(refusal("learning_rate: 1\noptim: adamw_24bit", 2),
              HasSubstr("paged_adamw or sgd as in transformers"));
  for (auto [word, instead] :
       {std::pair("lion_8bit", "write adamw_bnb_8bit"),
        {"paged_lion_32bit", "write paged_adamw_32bit"},
        {"paged_ademamix_8bit", "write paged_adamw_8bit"},
        {"adafactor", "write adamw_torch"}})
    EXPECT_THAT(refusal(std::string("learning_rate: 1\noptim: ") + word, 2),
                HasSubstr(instead));
}

TEST(ForeignFiles, TakesTorchtitansAverages) {
  LoadedConfig loaded = parse("ema: {enable: true, decay: 0.99, "
                              "update_every_n_steps: 4, offload_to_cpu: true}",
                              2);
  ASSERT_TRUE(loaded.config.ema);
  EXPECT_EQ(loaded.config.ema->decay, 0.99);
  EXPECT_EQ(loaded.config.ema->every, 4);
  EXPECT_THAT(loaded.notes, ElementsAre(HasSubstr("the first update leaves")));
  EXPECT_FALSE(parse("ema: {enable: false, decay: 0.99}", 2).config.ema);
  EXPECT_THAT(refusal("ema: {enable: true}", 2),
              HasSubstr("write ema: {decay"));
  EXPECT_THAT(refusal("ema: {enable: true, decay: 0.9, start_step: 5}", 2),
              HasSubstr("update_after_step"));
}

TEST(ForeignFiles, TakesTorchtitansBlocks) {
  for (const char *text :
       {"quantize: {linear: {mx: {recipe_name: mxfp8_cublas, "
        "mxfp8_dim1_cast_kernel_choice: triton}}}",
        "mx: {recipe_name: mxfp8_cublas_rceil, filter_fqns: []}"}) {
    LoadedConfig loaded = parse(text, 2);
    ASSERT_TRUE(loaded.config.float8) << text;
    EXPECT_EQ(loaded.config.float8->recipe, Float8Choice::Mxfp8);
  }
  EXPECT_THAT(refusal("mx: {recipe_name: mxfp4_cublas}", 2),
              HasSubstr("expected mxfp8"));
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
  EXPECT_EQ(
      refusal("fp8: true\ndevice: cuda\ncuda_arch: sm_80\n", 2).substr(0, 38),
      "E045 fsdp.yaml:1:6: 'fp8' is not suppo");
}

TEST(ForeignFiles, TakesTheLeastRateOfACosine) {
  const std::string begin = "learning_rate: 2.0e-5\nmax_steps: 40\n";
  LoadedConfig loaded =
      parse(begin + "lr_scheduler: cosine\ncosine_min_lr_ratio: 0.1\n", 2);
  EXPECT_EQ(loaded.config.schedule->min_lr_ratio, 0.1);
  EXPECT_EQ(loaded.config.schedule->min_lr, 0);
  EXPECT_EQ(kindOf(*loaded.config.schedule), ScheduleKind::cosine);
  LoadedConfig before =
      parse("cosine_min_lr_ratio: 0.1\nlr_scheduler: cosine\n" + begin, 2);
  EXPECT_EQ(before.config.schedule->min_lr_ratio, 0.1);
  LoadedConfig rex =
      parse(begin + "lr_scheduler: rex\ncosine_min_lr_ratio: 0.2\n", 2);
  EXPECT_EQ(kindOf(*rex.config.schedule), ScheduleKind::rex);
  EXPECT_EQ(rex.config.schedule->min_lr_ratio, 0.2);
  LoadedConfig linear =
      parse(begin + "lr_scheduler: linear\ncosine_min_lr_ratio: 0.1\n", 2);
  EXPECT_EQ(linear.config.schedule->min_lr_ratio, 0);
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
              HasSubstr("the least rate is given twice"));
}

TEST(ForeignFiles, TakesArgumentsOfASchedule) {
  const std::string begin = "learning_rate: 2.0e-5\nmax_steps: 40\n"
                            "lr_scheduler_type: cosine_with_min_lr\n"
                            "lr_scheduler_kwargs: ";
  EXPECT_DOUBLE_EQ(parse(begin + "{min_lr: 1.0e-6}", 2).config.schedule->min_lr,
                   1e-6);
  EXPECT_DOUBLE_EQ(
      parse(begin + "{min_lr_rate: 0.5}", 2).config.schedule->min_lr_ratio,
      0.5);
  EXPECT_EQ(getNumber(*parse(begin + "{num_cycles: 2}", 2).config.schedule,
                      ScheduleNumber::num_cycles),
            2);
  EXPECT_THAT(refusal(begin + "{lr_end: 2}", 2),
              HasSubstr("fsdp.yaml:4:23: 'lr_end' of lr_scheduler_kwargs "
                        "cannot be had"));
  EXPECT_THAT(refusal("lr_scheduler_kwargs: {min_lr: 0}", 2),
              HasSubstr("lr_scheduler_kwargs need lr_scheduler"));
}

TEST(ForeignFiles, TakesArgumentsOfSchedulesOfTheirOwn) {
  const std::string begin = "learning_rate: 2.0e-5\nmax_steps: 40\n";
  plan::ScheduleT stable =
      *parse(begin + "lr_scheduler_type: warmup_stable_decay\n"
                     "lr_scheduler_kwargs: {num_decay_steps: 20, decay_type: "
                     "1-sqrt, min_lr_ratio: 0.1}\n",
             2)
           .config.schedule;
  EXPECT_EQ(kindOf(stable), ScheduleKind::warmup_stable_decay);
  EXPECT_EQ(getNumber(stable, ScheduleNumber::num_decay_steps), 20);
  EXPECT_EQ(getNumber(stable, ScheduleNumber::decay_type),
            double(ScheduleShape::root));
  EXPECT_EQ(stable.min_lr_ratio, 0.1);
  plan::ScheduleT falling = *parse(begin + "lr_scheduler: polynomial\n"
                                           "lr_scheduler_kwargs: {power: 2}\n",
                                   2)
                                 .config.schedule;
  EXPECT_EQ(falling.min_lr, 1e-7);
  EXPECT_EQ(getNumber(falling, ScheduleNumber::power), 2);
  EXPECT_EQ(parse(begin + "lr_scheduler: polynomial\n"
                          "lr_scheduler_kwargs: {lr_end: 0}\n",
                  2)
                .config.schedule->min_lr,
            0);
  EXPECT_THAT(refusal(begin + "lr_scheduler_type: warmup_stable_decay\n", 2),
              HasSubstr("needs num_decay_steps"));
  EXPECT_THAT(refusal(begin + "lr_scheduler_type: warmup_stable_decay\n"
                              "lr_scheduler_kwargs: {num_decay_steps: 41}\n",
                      2),
              HasSubstr("do not fit into the total of 40"));
  EXPECT_THAT(refusal(begin + "lr_scheduler_type: reduce_lr_on_plateau\n", 2),
              HasSubstr("E045 fsdp.yaml:3:20: 'lr_scheduler_type: "
                        "reduce_lr_on_plateau' cannot be had: its rate"));
}

TEST(ForeignFiles, TakesTorchtitansSchedule) {
  plan::ScheduleT schedule = *parse("lr_scheduler: {decay_ratio: 0.2, "
                                    "decay_type: sqrt, min_lr_factor: 0.1, "
                                    "warmup_steps: 4}\n"
                                    "training: {steps: 40}\n",
                                    2)
                                  .config.schedule;
  EXPECT_EQ(kindOf(schedule), ScheduleKind::linear_warmup_stable_decay);
  EXPECT_EQ(getNumber(schedule, ScheduleNumber::decay_ratio), 0.2);
  EXPECT_EQ(getNumber(schedule, ScheduleNumber::decay_type),
            double(ScheduleShape::root));
  EXPECT_EQ(schedule.min_lr_ratio, 0.1);
  EXPECT_EQ(schedule.warmup_steps, 4u);
  EXPECT_EQ(schedule.total_steps, 40u);
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
  EXPECT_THAT(loaded.warnings, IsEmpty());
  EXPECT_TRUE(config.weighsLoss);
  // No more is told than what cannot be had.
  std::string all =
      refusal(file + "weight_decay: 0.1\n"
                     "lr_scheduler_type: warmup_steady_decay\n"
                     "lr_scheduler_kwargs: {num_decay_steps: 20}\n",
              2);
  EXPECT_THAT(all, HasSubstr("E044 fsdp.yaml:11:20: 'lr_scheduler_type': "
                             "expected one of"));
  EXPECT_EQ(std::ranges::count(all, '\n'), 0) << all;
}

/// As transformers: not of biases and norms, whatever else the file says of
/// them.
TEST(ForeignFiles, WeightDecaySparesNorms) {
  LoadedConfig loaded = parse("learning_rate: 1\noptim: adamw_torch\n"
                              "weight_decay: 0.1\n",
                              2);
  const OptimizerConfig &optimizer = loaded.config.optimizer;
  EXPECT_EQ(optimizer.getNumbers()[OptimizerNumber::weight_decay], 0.1);
  ASSERT_EQ(optimizer.groups.size(), 1u);
  const OptimizerGroup &spared = optimizer.groups[0];
  EXPECT_EQ(optimizer.getNumbers(&spared)[OptimizerNumber::weight_decay], 0);
  EXPECT_TRUE(spared.sparesNorms);
  auto isSpared = [&](const std::string &name) {
    return std::ranges::any_of(spared.patterns, [&](const std::string &each) {
      return matchesPattern(each, name);
    });
  };
  for (const char *name :
       {"model.norm.weight", "a.input_layernorm.weight", "h.attn.c_attn.bias",
        "encoder.LayerNorm.weight", "x.q_norm.weight", "norm.weight",
        "RMSNorm_0.weight"})
    EXPECT_TRUE(isSpared(name)) << name;
  for (const char *name : {"model.embed_tokens.weight", "lm_head.weight",
                           "x.normal.weight", "x.norm1.weight"})
    EXPECT_FALSE(isSpared(name)) << name;
  LoadedConfig own = parse("weight_decay: 0.1\noptimizer: {name: adamw, "
                           "groups: [{params: '*norm*', weight_decay: 0.2}]}",
                           2);
  ASSERT_EQ(own.config.optimizer.groups.size(), 2u);
  EXPECT_TRUE(own.config.optimizer.groups[0].sparesNorms);
  EXPECT_THAT(parse("weight_decay: 0\n", 2).config.optimizer.groups, IsEmpty());
}

/// A word of Axolotl's is no pattern of modules.
TEST(ForeignFiles, OffloadsActivationsByAxolotlsWords) {
  for (const char *word : {"true", "legacy", "disk"})
    EXPECT_THAT(parse(std::string("activation_offloading: ") + word, 2)
                    .config.offloadActivations,
                ElementsAre("*"))
        << word;
  EXPECT_THAT(
      parse("activation_offloading: false", 2).config.offloadActivations,
      IsEmpty());
  EXPECT_THAT(refusal("activation_offloading: layers", 2), HasSubstr("E043"));
}

/// Where the file says both, they have to agree.
TEST(ForeignFiles, ReadsAStrategyBesideResharding) {
  const std::string begin = "fsdp_config:\n"
                            "  fsdp_reshard_after_forward: true\n"
                            "  fsdp_sharding_strategy: ";
  EXPECT_EQ(parse(begin + "FULL_SHARD", 2).config.reshard, Reshard::All);
  EXPECT_THAT(refusal(begin + "SHARD_GRAD_OP", 2),
              HasSubstr("SHARD_GRAD_OP is reshard_after_forward: false"));
}

/// transformers' and Axolotl's defaults are theirs.
TEST(ForeignFiles, WarmsUpAsTheToolDoes) {
  auto kind = [](const std::string &text) {
    return kindOf(*parse(text + "warmup_steps: 3\n", 2).config.schedule);
  };
  EXPECT_EQ(kind("base_model: x\n"), ScheduleKind::cosine);
  EXPECT_EQ(kind("model_name_or_path: x\n"), ScheduleKind::linear);
  LoadedConfig part = parse("base_model: x\nwarmup_steps: 0.1\n", 2);
  EXPECT_EQ(part.config.schedule->warmup_ratio, 0.1);
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
