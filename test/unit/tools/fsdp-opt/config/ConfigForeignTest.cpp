//===- ConfigForeignTest.cpp - Keys of other tools ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Schedule.h"
#include "test/unit/tools/fsdp-opt/config/ConfigText.h"

using namespace fsdp;
using namespace fsdp::test;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

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
  EXPECT_EQ(config.optimizer.kind, OptimizerKind::adamw);
  EXPECT_EQ(config.optimizer.lr, 2e-4);
  EXPECT_EQ(config.optimizer.getNumbers()[OptimizerNumber::beta1], 0.9);
  EXPECT_EQ(config.optimizer.getNumbers()[OptimizerNumber::beta2], 0.95);
  EXPECT_EQ(config.optimizer.getNumbers()[OptimizerNumber::eps], 1e-6);
  EXPECT_EQ(config.optimizer.getNumbers()[OptimizerNumber::weight_decay], 0);
  EXPECT_EQ(kindOf(*config.schedule), ScheduleKind::cosine);
  EXPECT_EQ(config.schedule->warmup_steps, 10u);
  EXPECT_EQ(config.schedule->total_steps, 100u);
  EXPECT_EQ(config.maxGradNorm, 1.0);
  ASSERT_EQ(loaded.notes.size(), 1u);
  EXPECT_THAT(loaded.notes[0], HasSubstr("transformers' defaults"));
  ASSERT_EQ(loaded.minor.size(), 7u);
  EXPECT_EQ(loaded.minor[0],
            "fsdp.yaml:2:1: 'learning_rate' is taken as optimizer.lr");
  EXPECT_THAT(refusal("optimizer: adamw_torch"), HasSubstr("learning_rate"));
  EXPECT_THAT(refusal("warmup_steps: 3"), HasSubstr("needs lr_scheduler"));
  LoadedConfig constant = parse("lr_scheduler: constant\nwarmup_steps: 3\n", 2);
  EXPECT_EQ(constant.config.schedule->warmup_steps, 0u);
  EXPECT_THAT(constant.notes[0], HasSubstr("no effect"));
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
  EXPECT_THAT(refusal("fsdp_config: {sharding_strategy: 2, "
                      "reshard_after_forward: true}",
                      4),
              HasSubstr("the file says the other, too; keep one"));
}

TEST(Config, TakesAcceleratesPrecision) {
  for (const char *text :
       {"mixed_precision: bf16", "bf16: true", "bf16: auto"}) {
    LoadedConfig loaded = parse(text, 2);
    const PrecisionPolicy &policy = loaded.config.precision.policy;
    EXPECT_EQ(policy.paramDtype, "bfloat16") << text;
    EXPECT_EQ(policy.reduceDtype, "bfloat16") << text;
    EXPECT_EQ(policy.outputDtype, "bfloat16") << text;
    EXPECT_EQ(loaded.notes.size(), 1u) << text;
    EXPECT_EQ(loaded.minor.size(), 1u) << text;
  }
  EXPECT_THAT(refusal("mixed_precision: fp4"), HasSubstr("E043"));
  EXPECT_TRUE(parse("mixed_precision: fp8", 2).config.float8);
  EXPECT_THAT(refusal("bf16: true\nfsdp_config: {mixed_precision: "
                      "{param_dtype: bfloat16}}"),
              HasSubstr("say the same"));
}

TEST(Config, RefusesWhatIsNotThere) {
  for (const char *text :
       {"fsdp_version: 1",
        "fsdp_config: {mixed_precision: {buffer_dtype: float32}}",
        "pipeline_parallel_size: 2", "rl: grpo",
        "fsdp: [hybrid_shard, auto_wrap]",
        "optimizer: {name: sgd, dampening: 0.5}", "loraplus_lr_embedding: 16",
        "optimizer: {amsgrad: true}",
        "optimizer: {groups: [{params: a, maximize: true}]}"})
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
                              "learning_rate:\n",
                              2);
  EXPECT_TRUE(loaded.notes.empty());
}

TEST(Config, TakesTensorParallelismOfOtherTools) {
  for (const char *text :
       {"tensor_parallel_size: 2", "tensor_parallel_degree: 2",
        "mesh: {tensor: 2}", "parallelism_config: {tp_size: 2}",
        "parallelism_config: {parallelism_config_tp_size: 2, "
        "parallelism_config_dp_shard_size: 4, parallelism_config_cp_size: "
        "1}"}) {
    Config config = parse(text, 8).config;
    EXPECT_EQ(config.tp, 2) << text;
    EXPECT_EQ(config.dpShard, 4) << text;
  }
  EXPECT_THAT(
      parse("tensor_parallel_size: 2", 4).minor,
      Contains(HasSubstr("'tensor_parallel_size' is taken as mesh.tp")));
  for (const char *text :
       {"context_parallel_size: 2", "parallelism_config: {cp_size: 2}"}) {
    Config config = parse(text, 8).config;
    EXPECT_EQ(config.cp, 2) << text;
    EXPECT_EQ(config.dpShard, 4) << text;
  }
  for (const char *text : {"parallelism_config: {sp_size: 2}", "mesh: {pp: 2}"})
    EXPECT_THAT(refusal(text, 8), HasSubstr("E045 fsdp.yaml:")) << text;
  EXPECT_THAT(refusal("parallelism_config: {tp: 2}", 8), HasSubstr("E042"));
  EXPECT_THAT(refusal("tensor_parallel_size: 2\nmesh: {tp: 2}", 8),
              HasSubstr("say the same"));
}

TEST(Config, KeysWithoutAValueSayNothing) {
  LoadedConfig loaded =
      parse("wandb_project:\nwandb_entity: ''\nmicro_batch_size:\n"
            "sequence_len:\nresume_from_checkpoint:\nspecial_tokens: {}\n"
            "sample_packing: false\nval_set_size: 0.0\nfsdp:\n"
            "gradient_checkpointing: false\nplugins: []\n",
            2);
  EXPECT_TRUE(loaded.warnings.empty());
  EXPECT_TRUE(loaded.notes.empty());
  EXPECT_TRUE(loaded.minor.empty());
  EXPECT_FALSE(loaded.rows || loaded.tokens);
}

TEST(Config, WarnsOfWhatWouldChangeTraining) {
  LoadedConfig loaded = parse("base_model: x\ndatasets: [a]\n"
                              "sample_packing: true\nval_set_size: 0.05\n"
                              "early_stopping_patience: 2\n",
                              2);
  ASSERT_EQ(loaded.warnings.size(), 4u);
  EXPECT_THAT(loaded.warnings[0],
              HasSubstr("fsdp.yaml:2:1: 'datasets' is not taken from here: "));
  EXPECT_THAT(loaded.warnings[1],
              AllOf(HasSubstr("'sample_packing'"), HasSubstr("write_rows"),
                    HasSubstr("position_ids and without attention_mask")));
  EXPECT_THAT(loaded.warnings[3], HasSubstr("fsdp-run --keep-best"));
  EXPECT_TRUE(loaded.notes.empty());
  EXPECT_EQ(loaded.minor.size(), 1u);
}

TEST(Config, TakesEpochsOfOtherTools) {
  for (const char *text : {"num_epochs: 3", "num_train_epochs: 3.0",
                           "num_epochs: 3\nmax_steps: -1",
                           "num_epochs: 3\ndata: {shuffle: true}"}) {
    LoadedConfig loaded = parse(text, 2);
    ASSERT_TRUE(loaded.config.data) << text;
    EXPECT_EQ(loaded.config.data->data.epochs, 3u) << text;
  }
  LoadedConfig steps = parse("num_epochs: 3\nmax_steps: 100", 2);
  EXPECT_EQ(steps.config.data->data.epochs, 0u);
  EXPECT_THAT(refusal("num_epochs: 0.5"), HasSubstr("a whole number from 1"));
  EXPECT_THAT(refusal("num_epochs: .nan"), HasSubstr("a finite number"));
}

TEST(Config, TakesCheckpointingOfOtherTools) {
  for (const char *text :
       {"gradient_checkpointing: true", "activation_checkpointing: true",
        "fsdp_config: {activation_checkpointing: true}",
        "fsdp_config: {fsdp_activation_checkpointing: true}"}) {
    LoadedConfig loaded = parse(text, 2);
    ASSERT_EQ(loaded.config.checkpointing.size(), 1u) << text;
    EXPECT_EQ(loaded.config.checkpointing[0].policy, RecomputeChoice::Full);
    EXPECT_TRUE(loaded.notes.empty()) << text;
  }
  EXPECT_TRUE(
      parse("gradient_checkpointing: false", 2).config.checkpointing.empty());
}

TEST(Config, CheckpointingOfFsdpConfigCounts) {
  for (const char *text :
       {"gradient_checkpointing: true\n"
        "fsdp_config: {activation_checkpointing: {policy: selective}}",
        "fsdp_config: {activation_checkpointing: {policy: selective}}\n"
        "gradient_checkpointing: true"}) {
    LoadedConfig loaded = parse(text, 2);
    ASSERT_EQ(loaded.config.checkpointing.size(), 1u) << text;
    EXPECT_EQ(loaded.config.checkpointing[0].policy,
              RecomputeChoice::Selective);
  }
}

TEST(Config, TakesFusedLossesAsChunks) {
  for (const std::string key :
       {"chunked_cross_entropy", "liger_fused_linear_cross_entropy",
        "cut_cross_entropy"}) {
    EXPECT_EQ(parse(key + ": true", 2).config.lossChunks, 0) << key;
    EXPECT_EQ(parse(key + ": false", 2).config.lossChunks, 1) << key;
    EXPECT_EQ(parse(key + ": true\nfsdp_config: {loss_chunks: 8}", 2)
                  .config.lossChunks,
              8)
        << key;
  }
}

TEST(Config, TellsAllMistakesAtOnce) {
  std::string all = refusal("rl: grpo\noptimizer: {lr: fast}\n"
                            "fsdp_config:\n  prefetch: -1\n"
                            "  reshard_after_foward: true\nadapter: ia3\n");
  EXPECT_THAT(all,
              testing::StartsWith("E045 fsdp.yaml:1:5: 'rl: grpo' cannot"));
  for (const char *line :
       {"\nerror[fsdp-E043]: fsdp.yaml:2:17: 'lr': expected a number",
        "\nerror[fsdp-E044]: fsdp.yaml:4:13: 'prefetch'",
        "\nerror[fsdp-E042]: fsdp.yaml:5:3: unknown key",
        "\nerror[fsdp-E044]: fsdp.yaml:6:10: 'adapter': expected one of",
        "\nerror[fsdp-E046]: fsdp.yaml:1:1: the number of ranks is missing"})
    EXPECT_THAT(all, HasSubstr(line));
}

TEST(Config, TellsAllMistakesOfASection) {
  std::string all = refusal("mesh: {dp_shard: 4}\n"
                            "optimizer: {name: sgd, lr: fast, betas: [0, 0]}\n"
                            "data: {epochs: 0, shufle: true}\n"
                            "eval: {data: a.bin, every: 0}\n"
                            "fsdp_config: {min_num_params: 3}\n");
  EXPECT_THAT(all, testing::StartsWith("E043 fsdp.yaml:2:28: 'lr': expected"));
  for (const char *line :
       {"E044]: fsdp.yaml:3:16: 'epochs': expected a number from 1",
        "E042]: fsdp.yaml:3:19: unknown key 'shufle'",
        "E044]: fsdp.yaml:4:28: 'every': expected a number from 1",
        "E044]: fsdp.yaml:2:41: 'betas' has no meaning for the optimizer sgd",
        "E044]: fsdp.yaml:5:31: 'min_num_params' needs auto_wrap_policy"})
    EXPECT_THAT(all, HasSubstr(line));
  // What follows from a mistake is none.
  EXPECT_THAT(all, testing::Not(HasSubstr("'inputs'")));
  EXPECT_THAT(all, testing::Not(HasSubstr("number of ranks")));
}

TEST(Config, TakesTheOptimizerOfTransformersArguments) {
  LoadedConfig loaded = parse("optim: adamw_torch\nlearning_rate: 1.0e-4\n"
                              "fsdp: full_shard auto_wrap\n"
                              "per_device_train_batch_size: 8\n",
                              2);
  EXPECT_EQ(loaded.config.optimizer.lr, 1e-4);
  EXPECT_EQ(loaded.config.reshard, Reshard::All);
  ASSERT_TRUE(loaded.rows);
  EXPECT_EQ(loaded.rows->size, 8);
}

TEST(Config, NotesForeignKeysOnce) {
  LoadedConfig loaded =
      parse("base_model: meta/x\nsequence_len: 4096\n"
            "datasets: [{path: a, type: b}]\noutput_dir: ./out\n"
            "fsdp_config: {state_dict_type: FULL_STATE_DICT}\n",
            2);
  ASSERT_EQ(loaded.minor.size(), 3u);
  EXPECT_THAT(loaded.minor[0], HasSubstr("fsdp.yaml:1:1: 'base_model'"));
  EXPECT_THAT(loaded.minor[2], HasSubstr("fsdp.yaml:5:15: 'state_dict_type'"));
  ASSERT_EQ(loaded.warnings.size(), 1u);
  EXPECT_THAT(loaded.warnings[0], HasSubstr("fsdp.yaml:3:1: 'datasets'"));
  ASSERT_TRUE(loaded.tokens);
  EXPECT_EQ(loaded.tokens->place, "fsdp.yaml:2:15");
}

TEST(Config, NoRanksAreNotDividedAmong) {
  EXPECT_THAT(refusal("num_processes: 0\n"
                      "fsdp_config: {sharding_strategy: NO_SHARD}\n"),
              testing::StartsWith("E044 fsdp.yaml:1:16: 'num_processes'"));
}

/// Checks across keys find a key by what it is, however it is called.
TEST(Config, ChecksKeysUnderOtherNames) {
  const std::string begin = "mesh: {dp_shard: 4}\nfsdp_config: ";
  EXPECT_EQ(refusal(begin + "{fsdp_reshard_after_forward: 3}"),
            "E044 fsdp.yaml:2:43: 'fsdp_reshard_after_forward': expected a "
            "number of ranks that divides the 4 of dp_shard, found 3");
  EXPECT_THAT(refusal(begin + "{fsdp_min_num_params: 3}"),
              HasSubstr("needs auto_wrap_policy: SIZE_BASED_WRAP"));
  EXPECT_THAT(refusal(begin + "{fsdp_transformer_layer_cls_to_wrap: A}"),
              HasSubstr("needs auto_wrap_policy: TRANSFORMER_BASED_WRAP"));
  EXPECT_TRUE(
      parse(begin + "{fsdp_offload_params: true}").config.offloadParams);
  EXPECT_THAT(parse(begin + "{fsdp_gradient_sync: last}").notes,
              ElementsAre(HasSubstr("'fsdp_gradient_sync' has no effect")));
  EXPECT_THAT(parse("mode: inference\noptim: adamw_torch\n"
                    "learning_rate: 1.0e-4\n",
                    2)
                  .notes,
              testing::Contains(HasSubstr("'optim' has no effect with mode: "
                                          "inference")));
  EXPECT_THAT(refusal("learning_rate: fast", 2),
              HasSubstr("'learning_rate': expected a number"));
  // transformers' SGD takes no notice of it either.
  EXPECT_EQ(refusal("optim: sgd\nlearning_rate: 1\nadam_epsilon: 1.0e-6", 2),
            "");
  EXPECT_THAT(refusal("adam_beta1: 0.5\noptimizer: {betas: [0.1, 0.2]}", 2),
              HasSubstr("'betas' and 'adam_beta1' say the same"));
}

} // namespace
