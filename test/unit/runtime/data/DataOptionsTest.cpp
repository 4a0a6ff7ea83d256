//===- DataOptionsTest.cpp - What a run reads -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/DataOptions.h"
#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/data/DataFiles.h"

#include <gmock/gmock.h>

using namespace fsdp;
using namespace fsdp::test;
using testing::ElementsAre;

namespace {

plan::PlanT makePlan() {
  plan::PlanT plan;
  for (const char *name : {"tokens", "targets"}) {
    plan.inputs.push_back(std::make_unique<plan::InputT>());
    plan.inputs.back()->name = name;
  }
  return plan;
}

TEST(DataOptions, StandForTheArtifacts) {
  plan::PlanT plan = makePlan();
  plan.data = std::make_unique<plan::DataT>();
  plan.data->files = {"train_*.bin", "/data/more.bin"};
  plan.data->seed = 3;
  plan.data->shuffle = true;
  RunData data = chooseData(plan, "runs/a", "", "");
  EXPECT_THAT(data.files, ElementsAre("runs/a/train_*.bin", "/data/more.bin"));
  EXPECT_EQ(data.seed, 3u);
  data = chooseData(plan, "runs/a", "other.bin",
                    "shuffle=false,seed=9,epochs=2,drop_last=false,"
                    "format=llm.c,dtype=uint32,inputs=tokens+targets");
  EXPECT_THAT(data.files, ElementsAre("other.bin"));
  EXPECT_FALSE(data.shuffle);
  EXPECT_EQ(data.seed, 9u);
  EXPECT_EQ(data.epochs, 2u);
  EXPECT_FALSE(data.drop_last);
  EXPECT_EQ(data.format, plan::TokenFormat::llm_c);
  EXPECT_EQ(data.dtype, plan::DType::u32);
  EXPECT_THAT(data.inputs, ElementsAre("tokens", "targets"));
}

TEST(DataOptions, SayWhatMayDiffer) {
  plan::PlanT plan = makePlan();
  RunData data = chooseData(plan, "", "a.safetensors",
                            "ignore=mask+ids,repeat=tokens,exported=targets");
  EXPECT_THAT(data.ignored, ElementsAre("mask", "ids"));
  EXPECT_THAT(data.repeated, ElementsAre("tokens"));
  EXPECT_THAT(data.exported, ElementsAre("targets"));
  EXPECT_FALSE(data.isSample);
  RunData validation = chooseValidationData(plan, "", "b.safetensors", data);
  EXPECT_THAT(validation.ignored, ElementsAre("mask", "ids"));
  EXPECT_THAT(validation.exported, ElementsAre("targets"));
}

TEST(DataOptions, SayWhatIsBehindShortRows) {
  plan::PlanT plan = makePlan();
  plan.data = std::make_unique<plan::DataT>();
  plan.data->pad.push_back(std::make_unique<plan::PaddingT>());
  plan.data->pad[0]->input = "tokens";
  plan.data->pad[0]->value = 3;
  RunData data = chooseData(
      plan, "", "a.safetensors",
      "pad=targets:-1.5+tokens:2,length_pool=128,length_group=32,labels="
      "targets,label_count=tokens,shifts_labels=true");
  ASSERT_EQ(data.pad.size(), 2u);
  EXPECT_EQ(data.pad[0]->input, "targets");
  EXPECT_EQ(data.pad[0]->value, -1.5);
  EXPECT_EQ(data.pad[1]->input, "tokens");
  EXPECT_EQ(data.pad[1]->value, 2);
  EXPECT_EQ(data.length_pool, 128u);
  EXPECT_EQ(data.length_group, 32u);
  RunData validation = chooseValidationData(plan, "", "b.safetensors", data);
  EXPECT_EQ(validation.pad.size(), 2u);
  EXPECT_EQ(validation.labels, "targets");
  EXPECT_EQ(validation.label_count, "tokens");
  EXPECT_TRUE(validation.shifts_labels);
  EXPECT_EQ(validation.length_pool, 0u);
}

TEST(DataOptions, SamplesAreAskedForByName) {
  plan::PlanT plan = makePlan();
  plan.data = std::make_unique<plan::DataT>();
  plan.data->files = {"train.bin"};
  RunData data = chooseData(plan, "", "sample", "");
  EXPECT_TRUE(data.isSample);
  EXPECT_TRUE(data.files.empty());
  EXPECT_FALSE(chooseData(plan, "", "./sample", "").isSample);
  EXPECT_TRUE(chooseValidationData(plan, "", "sample", data).isSample);
}

TEST(DataOptions, ValidationReadsItsRowsOnceInTheirOrder) {
  plan::PlanT plan = makePlan();
  plan.data = std::make_unique<plan::DataT>();
  plan.data->inputs = {"tokens"};
  plan.data->shuffle = true;
  plan.data->epochs = 7;
  plan.data->drop_last = false;
  plan.validation = std::make_unique<plan::ValidationT>();
  plan.validation->files = {"val.bin"};
  RunData training = chooseData(plan, "", "", "dtype=uint32");
  RunData data = chooseValidationData(plan, "runs", "", training);
  EXPECT_THAT(data.files, ElementsAre("runs/val.bin"));
  EXPECT_THAT(data.inputs, ElementsAre("tokens"));
  EXPECT_EQ(data.dtype, plan::DType::u32);
  EXPECT_FALSE(data.shuffle);
  EXPECT_EQ(data.epochs, 1u);
  EXPECT_TRUE(data.drop_last);
  data = chooseValidationData(plan, "runs", "here.bin", training);
  EXPECT_THAT(data.files, ElementsAre("here.bin"));
}

TEST(DataOptions, MistakesAreNamed) {
  plan::PlanT plan = makePlan();
  for (auto [options, text] :
       {std::pair("shufle=true", "did you mean 'shuffle'?"),
        std::pair("shuffle=1", "'shuffle': expected true or false, found '1'"),
        std::pair("epochs=0", "'epochs': expected a whole number from 1"),
        std::pair("seed=-1", "'seed': expected a whole number from 0"),
        std::pair("format=gpt", "expected one of nanogpt, llm.c, megatron"),
        std::pair("inputs=tokens+", "names with + between them"),
        std::pair("inputs=token", "no input 'token'; did you mean 'tokens'?"),
        std::pair("repeat=token", "no input 'token'; did you mean 'tokens'?"),
        std::pair("exported=x", "no input 'x'"),
        std::pair("ignore=tokens", "'tokens' is an input"),
        std::pair("pad=tokens", "'pad': expected INPUT:NUMBER"),
        std::pair("pad=tokens:", "'pad': expected INPUT:NUMBER"),
        std::pair("pad=tokens:nan", "'pad': expected INPUT:NUMBER"),
        std::pair("pad=:1", "'pad': expected INPUT:NUMBER"),
        std::pair("pad=token:1", "no input 'token'; did you mean 'tokens'?"),
        std::pair("label_count=x,shifts_labels=true", "no input 'x'"),
        std::pair("label_count=tokens", "say shifts_labels=true"),
        std::pair("labels=tokens+targets", "'labels': expected one name"),
        std::pair("length_pool=100", "expected a multiple of 64, found 100"),
        std::pair("targets=targets", "give both")})
    expectError(ErrorId::BadUsage, text,
                [&, text = options] { chooseData(plan, "", "", text); });
  expectError(ErrorId::BadUsage, "--data=sample reads none",
              [&] { chooseData(plan, "", "sample", "shuffle=true"); });
}

TEST(DataOptions, FilesAreSamplesOrTokens) {
  TemporaryFolder folder;
  writeTensors(folder.path() + "/a.safetensors", {{"tokens", {1}, {1}}});
  writeFile(folder.path() + "/a.bin", toBytes(makeTokens<uint16_t>(4)));
  RunData data;
  EXPECT_EQ(openData(data), nullptr);
  data.files = {folder.path() + "/a.safetensors"};
  EXPECT_THAT(openData(data)->names(), ElementsAre("tokens"));
  data.inputs = {"x"};
  EXPECT_THAT(openData(data)->names(), ElementsAre("tokens"));
  data.files = {folder.path() + "/a.bin"};
  EXPECT_THAT(openData(data)->names(), ElementsAre("x"));
  data.length_pool = 64;
  expectError(ErrorId::DataShape, "are all as long; leave it out",
              [&] { openData(data); });
  data.length_pool = 0;
  // Without inputs that take tokens every file is one of samples.
  data.inputs = {};
  expectError(ErrorId::DataFileInvalid, "is not a safetensors file",
              [&] { openData(data); });
}

} // namespace
