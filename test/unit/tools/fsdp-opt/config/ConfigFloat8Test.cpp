//===- ConfigFloat8Test.cpp - Products of eight bits ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/tools/fsdp-opt/config/ConfigText.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

TEST(Config, ReadsFloat8) {
  EXPECT_FALSE(parse("mesh: {dp_shard: 2}").config.float8);
  EXPECT_FALSE(parse("mesh: {dp_shard: 2}\nfloat8:").config.float8);
  Config config = parse("mesh: {dp_shard: 2}\nfloat8: {}").config;
  EXPECT_EQ(config.float8->recipe, Float8Choice::Tensorwise);
  EXPECT_THAT(config.float8->modules, ElementsAre("*"));
  EXPECT_FALSE(config.float8->allGather);
  EXPECT_FALSE(config.float8->padInnerDim);
  config = parse("mesh: {dp_shard: 2}\n"
                 "float8: {recipe: rowwise, modules: [layers.*, head]}")
               .config;
  EXPECT_EQ(config.float8->recipe, Float8Choice::Rowwise);
  EXPECT_EQ(parse("mesh: {dp_shard: 2}\nfloat8: {recipe: mxfp8}")
                .config.float8->recipe,
            Float8Choice::Mxfp8);
  EXPECT_THAT(config.float8->modules, ElementsAre("layers.*", "head"));
  EXPECT_TRUE(parse("mesh: {dp_shard: 2}\n"
                    "float8: {enable_fsdp_float8_all_gather: true}")
                  .config.float8->allGather);
}

TEST(Config, RefusesFloat8ThatIsNotThere) {
  EXPECT_THAT(refusal("mesh: {dp_shard: 2}\nfloat8: {recipe: mx}"),
              HasSubstr("tensorwise, rowwise, mxfp8"));
  EXPECT_THAT(refusal("mesh: {dp_shard: 2}\nfloat8: {emulate: true}"),
              HasSubstr("'emulate'"));
  EXPECT_THAT(refusal("mesh: {dp_shard: 2}\nfloat8: {modules: []}"),
              HasSubstr("'modules'"));
  EXPECT_THAT(refusal("mesh: {dp_shard: 2}\nfloat8: {recipe: rowwise, "
                      "enable_fsdp_float8_all_gather: true}"),
              HasSubstr("needs recipe: tensorwise"));
  for (const char *mesh : {"tp", "cp"})
    EXPECT_THAT(refusal("mesh: {dp_shard: 2, " + std::string(mesh) +
                        ": 2}\nfloat8: {}"),
                testing::IsEmpty());
  std::string cuda = "mesh: {dp_shard: 2}\ndevice: cuda\n";
  EXPECT_THAT(refusal(cuda + "float8: {}"), testing::IsEmpty());
  EXPECT_THAT(refusal(cuda + "cuda_arch: sm_80\nfp8: true"),
              HasSubstr("'fp8' is not supported with a GPU before sm_89"));
}

} // namespace
