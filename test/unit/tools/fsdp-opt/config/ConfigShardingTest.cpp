//===- ConfigShardingTest.cpp - What the config says of sharding ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/tools/fsdp-opt/config/ConfigText.h"

using namespace fsdp;
using namespace fsdp::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

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

TEST(Config, ReadsBuckets) {
  Config config = parse("mesh: {dp_shard: 2}\nfsdp_config:\n  buckets: {ends: "
                        "[embed, head.*], norms: '*norm*'}")
                      .config;
  ASSERT_EQ(config.buckets.size(), 2u);
  EXPECT_EQ(config.buckets[0].name, "ends");
  EXPECT_THAT(config.buckets[0].patterns, ElementsAre("embed", "head.*"));
  EXPECT_EQ(config.buckets[1].name, "norms");
}

TEST(Config, TakesAnyCharactersInBucketsAndGroups) {
  Config config =
      parse("mesh: {dp_shard: 2}\nfsdp_config: {buckets: {'a=b': 'x|y'}}\n"
            "optimizer: {name: adamw, groups: [{params: 'x|y:z=1', lr: 1}]}")
          .config;
  ASSERT_EQ(config.buckets.size(), 1u);
  EXPECT_EQ(config.buckets[0].name, "a=b");
  EXPECT_THAT(config.buckets[0].patterns, ElementsAre("x|y"));
  EXPECT_THAT(config.optimizer.groups[0].patterns, ElementsAre("x|y:z=1"));
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

TEST(Config, ReadsReshardOfSomeBuckets) {
  const std::string begin = "mesh: {dp_shard: 4}\nfsdp_config: {overrides: [";
  Config config =
      parse(begin + "{modules: layers.0, reshard_after_forward: false}, "
                    "{modules: 'layers.*', reshard_after_forward: 2}]}")
          .config;
  ASSERT_EQ(config.overrides.size(), 2u);
  EXPECT_EQ(config.overrides[0].reshard, 1);
  EXPECT_EQ(config.overrides[1].reshard, 2);
  EXPECT_EQ(parse(begin + "{modules: a, reshard_after_forward: true}]}")
                .config.overrides[0]
                .reshard,
            0);
  EXPECT_THAT(refusal(begin + "{modules: a, reshard_after_forward: often}]}"),
              HasSubstr("E043"));
}

TEST(Config, ReadsShardDims) {
  const std::string mesh = "mesh: {dp_shard: 2}\nfsdp_config: ";
  EXPECT_THAT(
      parse(mesh + "{shard_dims: {'*.weight': 1, head.*: largest}}")
          .config.shardDims,
      ElementsAre(ShardDim{"*.weight", 1}, ShardDim{"head.*", std::nullopt}));
  EXPECT_THAT(refusal(mesh + "{shard_dims: {a: -1}}"), HasSubstr("E044"));
  EXPECT_THAT(refusal(mesh + "{shard_dims: {a: wide}}"), HasSubstr("E043"));
  EXPECT_THAT(refusal(mesh + "{shard_dims: [1]}"), HasSubstr("E043"));
}

TEST(Config, ReadsWhatIsOffloaded) {
  const std::string mesh = "mesh: {dp_shard: 2}\n";
  EXPECT_FALSE(parse(mesh).config.offloadParams);
  LoadedConfig loaded = parse(mesh + "fsdp_config: {offload_params: true, "
                                     "cpu_offload_pin_memory: false}");
  EXPECT_TRUE(loaded.config.offloadParams);
  EXPECT_FALSE(loaded.config.pinMemory);
  EXPECT_THAT(loaded.notes, testing::IsEmpty());
  EXPECT_TRUE(parse(mesh + "fsdp_config: {offload_optimizer: true}")
                  .config.offloadOptimizer);
  EXPECT_TRUE(parse(mesh + "device: cuda\nfsdp_config: {offload_params: true}")
                  .config.offloadParams);
  EXPECT_THAT(refusal("mesh: {dp_shard: 2, dp_replicate: 2}\n"
                      "gradient_accumulation_steps: 2\nfsdp_config: "
                      "{offload_params: true, gradient_sync: "
                      "all_reduce_last}"),
              HasSubstr("running sums"));
}

TEST(Config, ReadsActivationCheckpointing) {
  const std::string begin = "mesh: {dp_shard: 2}\nfsdp_config: "
                            "{activation_checkpointing: ";
  EXPECT_THAT(parse("mesh: {dp_shard: 2}").config.checkpointing, IsEmpty());
  EXPECT_THAT(parse(begin + "false}").config.checkpointing, IsEmpty());
  std::vector<CheckpointingConfig> told =
      parse(begin + "true}").config.checkpointing;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].policy, RecomputeChoice::Full);
  EXPECT_EQ(told[0].every, 1);
  told = parse(begin + "{policy: selective, every: 2, modules: 'layers.*', "
                       "save: [aten.mm, aten.bmm]}}")
             .config.checkpointing;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].policy, RecomputeChoice::Selective);
  EXPECT_EQ(told[0].every, 2);
  EXPECT_THAT(told[0].modules, ElementsAre("layers.*"));
  EXPECT_THAT(told[0].save, ElementsAre("aten.mm", "aten.bmm"));
  EXPECT_THAT(refusal(begin + "3}"), HasSubstr("E043"));
  EXPECT_THAT(refusal(begin + "{policy: none}}"), HasSubstr("E044"));
  EXPECT_THAT(refusal(begin + "{every: 0}}"), HasSubstr("E044"));
  EXPECT_THAT(refusal(begin + "{blocks: 2}}"), HasSubstr("E042"));
  EXPECT_THAT(refusal(begin + "{save: aten.mm}}"),
              HasSubstr("write policy: selective"));
}

TEST(Config, ReadsActivationCheckpointingOfEachModule) {
  const std::string begin = "mesh: {dp_shard: 2}\nfsdp_config: "
                            "{activation_checkpointing: ";
  std::vector<CheckpointingConfig> told =
      parse(begin + "[{policy: selective}, {modules: [layers.0, layers.1]}]}")
          .config.checkpointing;
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].policy, RecomputeChoice::Selective);
  EXPECT_THAT(told[0].modules, IsEmpty());
  EXPECT_EQ(told[1].policy, RecomputeChoice::Full);
  EXPECT_THAT(told[1].modules, ElementsAre("layers.0", "layers.1"));
  EXPECT_THAT(refusal(begin + "[true]}"), HasSubstr("E043"));
  EXPECT_THAT(refusal(begin + "[{policy: none}]}"), HasSubstr("E044"));
  EXPECT_THAT(refusal(begin + "[{}, {save: aten.mm}]}"),
              HasSubstr("write policy: selective"));
}

TEST(Config, ReadsLossChunks) {
  const std::string begin = "mesh: {dp_shard: 2}\nfsdp_config: {loss_chunks: ";
  EXPECT_EQ(parse("mesh: {dp_shard: 2}").config.lossChunks, 1);
  EXPECT_EQ(parse(begin + "4}").config.lossChunks, 4);
  EXPECT_EQ(parse(begin + "auto}").config.lossChunks, 0);
  EXPECT_THAT(refusal(begin + "0}"), HasSubstr("E044"));
  EXPECT_THAT(refusal(begin + "many}"), HasSubstr("E043"));
}

TEST(Config, ReadsPrefetch) {
  const std::string mesh = "mesh: {dp_shard: 2}\n";
  EXPECT_EQ(parse(mesh).config.prefetch, 1);
  EXPECT_EQ(parse(mesh + "fsdp_config: {prefetch: 0}").config.prefetch, 0);
  EXPECT_THAT(refusal(mesh + "fsdp_config: {prefetch: -1}"), HasSubstr("E044"));
  Config told = parse(mesh + "fsdp_config: {reductions_in_flight: 2, "
                             "overrides: [{modules: root, prefetch: 3}]}")
                    .config;
  EXPECT_EQ(told.reductionsInFlight, 2);
  ASSERT_EQ(told.overrides.size(), 1u);
  EXPECT_EQ(told.overrides[0].prefetch, 3);
  EXPECT_FALSE(told.overrides[0].reshard);
  EXPECT_THAT(refusal(mesh + "fsdp_config: {reductions_in_flight: 0}"),
              HasSubstr("E044"));
  EXPECT_THAT(refusal(mesh + "fsdp_config: {overrides: [{modules: root, "
                             "prefetch: -1}]}"),
              HasSubstr("E044"));
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

TEST(Config, RefusesRulesThatContradictEachOther) {
  EXPECT_THAT(refusal("fsdp_config:\n  bucket_layout: flat\n"
                      "  shard_dims: {\"*.bias\": 0, \"*.weight\": 1}\n",
                      2),
              HasSubstr("E044 fsdp.yaml:3:29: 'shard_dims' of '*.weight' is no "
                        "dim 0, which 'bucket_layout: flat' needs"));
  EXPECT_THAT(
      refusal("fsdp_config: {bucket_layout: fsdp2, shard_dims: {a: 1}}", 2),
      HasSubstr("'bucket_layout: fsdp2' needs"));
  // Which bucket has rows, and how long dims are, the model says.
  for (const char *text :
       {"fsdp_config: {bucket_layout: flat, shard_dims: {a: 0}}",
        "fsdp_config: {bucket_layout: flat, shard_dims: {a: largest}}",
        "fsdp_config: {bucket_layout: auto, shard_dims: {a: 1}}",
        "fsdp_config: {bucket_layout: flat, shard_dims: {a: 1}, overrides: "
        "[{modules: a, bucket_layout: rows}]}"})
    EXPECT_EQ(refusal(text, 2), "") << text;
  const std::string kept = "gradient_accumulation_steps: 2\nfsdp_config:\n"
                           "  reshard_after_forward: false\n"
                           "  reshard_after_backward: false\n"
                           "  overrides:\n  - {modules: a, "
                           "reshard_after_forward: ";
  for (const char *value : {"true}", "2}"})
    EXPECT_THAT(refusal(kept + value, 4),
                HasSubstr("E044 fsdp.yaml:6:5: 'reshard_after_forward: "));
  for (const char *value : {"false}", "1}"})
    EXPECT_EQ(refusal(kept + value, 4), "");
  EXPECT_THAT(refusal("fsdp_config: {overrides: [{modules: a, "
                      "reshard_after_forward: 3}]}",
                      4),
              HasSubstr("a number of ranks that divides the 4 of dp_shard, "
                        "found 3"));
}

TEST(Config, KnowsWhereKeysStand) {
  const Config config =
      parse("mesh: {dp_shard: 2}\nfsdp_config:\n  shard_dims: {a: 1}\n").config;
  EXPECT_EQ(config.places.at("mesh"), "fsdp.yaml:1:1");
  EXPECT_EQ(config.places.at("fsdp_config.shard_dims"), "fsdp.yaml:3:3");
}

} // namespace
