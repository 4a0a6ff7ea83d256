//===- ConfigParallelTest.cpp - Ranks that compute together ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/tools/fsdp-opt/config/ConfigText.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

TEST(Config, WorldIsTheProductOfTheMesh) {
  Config config = parse("mesh: {dp_replicate: 2, dp_shard: 3, tp: 4}").config;
  EXPECT_EQ(config.getWorldSize(), 24);
  EXPECT_EQ(parse("mesh: {dp_replicate: 2, tp: 4}", 24).config.dpShard, 3);
  EXPECT_EQ(parse("mesh: {dp_shard: -1, tp: 4}", 8).config.dpShard, 2);
  EXPECT_EQ(parse("mesh: {tp: 4}", 4).config.dpShard, 1);
  EXPECT_THAT(refusal("mesh: {tp: 3}", 8),
              HasSubstr("E047 fsdp.yaml:1:7: the mesh has 3 tensor "
                        "parallel ranks, which do not divide --world=8"));
  EXPECT_THAT(refusal("mesh: {dp_replicate: 2, tp: 3}", 8),
              HasSubstr("2 replicas of 3 tensor parallel ranks, which do"));
  EXPECT_THAT(refusal("mesh: {dp_shard: 4, tp: 4}", 8),
              HasSubstr("the mesh has 16 ranks and --world=8"));
  EXPECT_THAT(refusal("mesh: {tp: 2}"), HasSubstr("E046"));
  EXPECT_THAT(refusal("mesh: {tp: 0}", 8), HasSubstr("E044"));
  EXPECT_THAT(refusal("mesh: {dp_shard: 1024, dp_replicate: 1024, tp: 2}"),
              HasSubstr("expected at most 1048576"));
}

TEST(Config, ResizesTheShardsOfAMesh) {
  Config config = parse("mesh: {dp_shard: 4, dp_replicate: 2, tp: 2}\n"
                        "fsdp_config: {reshard_after_forward: 2}")
                      .config;
  EXPECT_TRUE(config.setWorldSize(24 * 2));
  EXPECT_EQ(config.dpShard, 12);
  EXPECT_FALSE(config.setWorldSize(6));  // no replicas of tp ranks
  EXPECT_FALSE(config.setWorldSize(12)); // three shards are no pairs
  EXPECT_EQ(config.dpShard, 12);
}

TEST(Config, DealsGrainsToAnotherNumberOfRanks) {
  Config config = parse("mesh: {dp_shard: 2}\n"
                        "optimizer: {name: sgd, lr: 0.1}\n"
                        "fsdp_config: {grains: 4}")
                      .config;
  EXPECT_EQ(config.microBatches, 2);
  EXPECT_TRUE(config.setWorldSize(1));
  EXPECT_EQ(config.microBatches, 4);
  EXPECT_TRUE(config.setWorldSize(3)); // 2, 1 and 1
  EXPECT_EQ(config.microBatches, 2);
  EXPECT_FALSE(config.setWorldSize(8)); // four of them would have none
  EXPECT_EQ(config.dpShard, 3);
  EXPECT_EQ(config.microBatches, 2);
}

TEST(Config, ReshardsWithinTheShards) {
  EXPECT_THAT(refusal("mesh: {dp_shard: 2, tp: 2}\n"
                      "fsdp_config: {reshard_after_forward: 4}"),
              HasSubstr("divides the 2 of dp_shard"));
}

TEST(Config, ReplicatesRanksThatComputeTogether) {
  Config config = parse("mesh: {tp: 2}\n"
                        "fsdp_config: {sharding_strategy: NO_SHARD}",
                        8)
                      .config;
  EXPECT_EQ(config.dpReplicate, 4);
  EXPECT_EQ(config.dpShard, 1);
}

TEST(Config, ReadsTensorParallelPlans) {
  EXPECT_EQ(parse("mesh: {tp: 2}", 2).config.tpPlan, std::nullopt);
  EXPECT_EQ(parse("mesh: {tp: 2}\ntp_plan: auto", 2).config.tpPlan,
            std::nullopt);
  Config config =
      parse("mesh: {tp: 2}\ntp_plan: {'*.q_proj': colwise, '*.o_proj': "
            "rowwise_rep, norm: sequence_parallel, lm_head: colwise_rep}\n"
            "sequence_parallel: true",
            2)
          .config;
  using enum ParallelChoice;
  EXPECT_THAT(*config.tpPlan, ElementsAre(ParallelRule{"*.q_proj", Colwise},
                                          ParallelRule{"*.o_proj", Rowwise},
                                          ParallelRule{"norm", Replicate},
                                          ParallelRule{"lm_head", Colwise}));
  EXPECT_TRUE(config.sequenceParallel);
}

TEST(Config, RefusesStylesByName) {
  const std::string mesh = "mesh: {tp: 2}\ntp_plan: ";
  for (const char *style : {"packed_colwise", "ep_router", "moe_tp_experts",
                            "gather", "isolated_parallel"})
    EXPECT_THAT(
        refusal(mesh + "{'*.a': " + style + "}", 2),
        HasSubstr("E045 fsdp.yaml:2:18: 'tp_plan' of '*.a': the style '" +
                  std::string(style) +
                  "' is not supported; expected one of colwise, "
                  "colwise_rep"));
  EXPECT_THAT(refusal(mesh + "{'*.a': columns}", 2),
              HasSubstr("E044 fsdp.yaml:2:18: 'tp_plan' of '*.a': unknown "
                        "style 'columns'; expected one of colwise"));
  EXPECT_THAT(refusal(mesh + "[a]", 2), HasSubstr("E043"));
  EXPECT_THAT(refusal(mesh + "manual", 2), HasSubstr("E043"));
}

TEST(Config, NotesPlansOfOneRank) {
  LoadedConfig loaded = parse("tp_plan: auto\nsequence_parallel: true", 2);
  ASSERT_EQ(loaded.notes.size(), 2u);
  EXPECT_THAT(loaded.notes[0], HasSubstr("'tp_plan' has no effect with one "
                                         "rank a step; mesh: {tp: N}"));
  EXPECT_THAT(loaded.notes[1], HasSubstr("'sequence_parallel' has no effect"));
  EXPECT_THAT(parse("sequence_parallel: false", 2).notes, IsEmpty());
  EXPECT_THAT(parse("mesh: {tp: 2}\ntp_plan: auto", 2).notes, IsEmpty());
}

TEST(Config, CutsSequencesOverRanks) {
  Config config = parse("mesh: {cp: 2, tp: 2}", 8).config;
  EXPECT_EQ(config.cp, 2);
  EXPECT_EQ(config.dpShard, 2);
  EXPECT_EQ(config.getWorldSize(), 8);
  EXPECT_THAT(refusal("mesh: {cp: 3}", 8),
              HasSubstr("3 context parallel ranks, which do not divide"));
  EXPECT_THAT(
      refusal("mesh: {cp: 2, tp: 2}\nsequence_parallel: true", 8),
      HasSubstr("E045 fsdp.yaml:2:20: sequence_parallel: expected false "
                "with mesh: {cp: 2}, which cuts the sequence already"));
  // Parameters are cut over the ranks of both.
  parse("mesh: {cp: 2}\nfsdp_config: {reshard_after_forward: 4}", 8);
  EXPECT_THAT(
      refusal("mesh: {cp: 2}\nfsdp_config: {reshard_after_forward: 3}", 8),
      HasSubstr("divides the 8 of dp_shard times cp, found 3"));
}

} // namespace
