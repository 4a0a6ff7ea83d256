//===- ConfigQuantizeTest.cpp - Frozen bases in blocks --------------------===//
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

TEST(Config, ReadsQuantize) {
  EXPECT_FALSE(parse("mesh: {dp_shard: 2}").config.quantize);
  EXPECT_FALSE(parse("mesh: {dp_shard: 2}\nquantize:").config.quantize);
  Config config = parse("mesh: {dp_shard: 2}\nquantize: {}").config;
  EXPECT_EQ(config.quantize->kind, QuantizeChoice::Nf4);
  EXPECT_THAT(config.quantize->modules, ElementsAre("*"));
  EXPECT_THAT(config.quantize->skip, IsEmpty());
  config = parse("mesh: {dp_shard: 2}\nquantize: {kind: int8, modules: "
                 "[layers.*, head], skip_modules: lm_head}")
               .config;
  EXPECT_EQ(config.quantize->kind, QuantizeChoice::Int8);
  EXPECT_THAT(config.quantize->modules, ElementsAre("layers.*", "head"));
  EXPECT_THAT(config.quantize->skip, ElementsAre("lm_head"));
}

TEST(Config, RefusesQuantizeThatIsNotThere) {
  auto of = [](const std::string &text) {
    return refusal("mesh: {dp_shard: 2}\nquantize: {}\n" + text);
  };
  EXPECT_THAT(refusal("mesh: {dp_shard: 2}\nquantize: {kind: fp4}"),
              HasSubstr("nf4, int8"));
  EXPECT_THAT(refusal("mesh: {dp_shard: 2}\nquantize: {modules: []}"),
              HasSubstr("'modules'"));
  EXPECT_THAT(refusal("mesh: {dp_shard: 2, tp: 2}\nquantize: {}"),
              HasSubstr("'quantize' is not supported with mesh: {tp: 2}"));
  EXPECT_THAT(of("device: cuda"), HasSubstr("with device: cuda"));
  EXPECT_THAT(of("float8: {}"), HasSubstr("with 'float8'"));
}

TEST(Config, TakesQuantizedBasesOfOtherTools) {
  auto kind = [](const std::string &text) {
    return parse(text, 2).config.quantize->kind;
  };
  EXPECT_EQ(kind("load_in_4bit: true"), QuantizeChoice::Nf4);
  EXPECT_EQ(kind("load_in_8bit: true"), QuantizeChoice::Int8);
  EXPECT_EQ(kind("adapter: qlora"), QuantizeChoice::Nf4);
  EXPECT_EQ(kind("adapter: lora\nload_in_8bit: true"), QuantizeChoice::Int8);
  EXPECT_EQ(kind("load_in_4bit: true\nadapter: qlora\nload_in_8bit: false"),
            QuantizeChoice::Nf4);
  // Our own key counts, wherever it stands.
  for (const char *text : {"load_in_4bit: true\nquantize: {kind: int8}",
                           "quantize: {kind: int8}\nadapter: qlora"})
    EXPECT_EQ(kind(text), QuantizeChoice::Int8);
  LoadedConfig loaded = parse("load_in_4bit: true", 2);
  ASSERT_EQ(loaded.notes.size(), 1u);
  EXPECT_FALSE(parse("load_in_4bit: false\nadapter:", 2).config.quantize);
}

} // namespace
