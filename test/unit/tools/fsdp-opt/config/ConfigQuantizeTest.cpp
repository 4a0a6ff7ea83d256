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
  EXPECT_THAT(refusal("mesh: {dp_shard: 2}\nquantize: {kind: int4}"),
              HasSubstr("nf4, fp4, int8"));
  for (const char *size : {"16", "96", "8192", "-64"})
    EXPECT_THAT(refusal(std::string("mesh: {dp_shard: 2}\nquantize: "
                                    "{block_size: ") +
                        size + "}"),
                HasSubstr("power of two from 32 to 4096"));
  EXPECT_THAT(refusal("mesh: {dp_shard: 2}\nquantize: {modules: []}"),
              HasSubstr("'modules'"));
  EXPECT_TRUE(
      parse("mesh: {dp_shard: 2, tp: 2}\nquantize: {}").config.quantize);
  EXPECT_TRUE(
      parse("mesh: {dp_shard: 2}\nquantize: {}\ndevice: cuda").config.quantize);
  EXPECT_THAT(of("float8: {}"), HasSubstr("with 'float8'"));
}

TEST(Config, ReadsTheFormOfBlocks) {
  QuantizeConfig quantize =
      *parse("mesh: {dp_shard: 2}\nquantize: {}").config.quantize;
  EXPECT_EQ(quantize.blockSize, 64);
  EXPECT_FALSE(quantize.doubleQuant);
  quantize = *parse("mesh: {dp_shard: 2}\nquantize: {kind: fp4, block_size: "
                    "4096, double_quant: true}")
                  .config.quantize;
  EXPECT_EQ(quantize.kind, QuantizeChoice::Fp4);
  EXPECT_EQ(quantize.blockSize, 4096);
  EXPECT_TRUE(quantize.doubleQuant);
}

TEST(Config, TakesFormsOfBlocksOfOtherTools) {
  auto form = [](const std::string &text) {
    QuantizeConfig quantize = *parse(text, 2).config.quantize;
    std::string kind = quantize.kind == QuantizeChoice::Fp4    ? "fp4"
                       : quantize.kind == QuantizeChoice::Int8 ? "int8"
                                                               : "nf4";
    return kind + " " + std::to_string(quantize.blockSize) +
           (quantize.doubleQuant ? " double" : "");
  };
  // TRL codes no scales by itself, Axolotl and LLaMA-Factory do.
  EXPECT_EQ(form("load_in_4bit: true"), "nf4 64");
  EXPECT_EQ(form("use_bnb_nested_quant: true\nload_in_4bit: true"),
            "nf4 64 double");
  EXPECT_EQ(form("load_in_4bit: true\nbnb_4bit_quant_type: fp4"), "fp4 64");
  EXPECT_EQ(form("load_in_4bit: true\nadapter: qlora"), "nf4 64 double");
  EXPECT_EQ(form("adapter: qlora\nload_in_4bit: true\nbnb_config_kwargs: "
                 "{bnb_4bit_use_double_quant: false}"),
            "nf4 64");
  EXPECT_EQ(form("bnb_config_kwargs: {bnb_4bit_quant_type: fp4, "
                 "bnb_4bit_blocksize: 128}\nadapter: qlora"),
            "fp4 128 double");
  EXPECT_EQ(form("quantization_bit: 4"), "nf4 64 double");
  EXPECT_EQ(form("double_quantization: false\nquantization_bit: 4\n"
                 "quantization_type: fp4"),
            "fp4 64");
  EXPECT_EQ(form("quantization_bit: 8\ndouble_quantization: true"), "int8 64");
  EXPECT_EQ(form("quantization_config: {load_in_4bit: true, quant_method: "
                 "bitsandbytes, bnb_4bit_use_double_quant: true}"),
            "nf4 64 double");
  // Our own key counts as a whole.
  EXPECT_EQ(form("adapter: qlora\nquantize: {block_size: 32}"), "nf4 32");
  EXPECT_EQ(form("load_in_8bit: true\nload_in_4bit: true\nquantize: {}"),
            "nf4 64");
  EXPECT_THAT(refusal("load_in_8bit: true\nload_in_4bit: true", 2),
              HasSubstr("'load_in_4bit' asks for another kind of blocks"));
  EXPECT_FALSE(parse("bnb_4bit_quant_type: fp4", 2).config.quantize);
  EXPECT_THAT(refusal("load_in_4bit: true\nbnb_4bit_quant_type: int4", 2),
              HasSubstr("nf4, fp4"));
  EXPECT_THAT(refusal("quantization_config: {llm_int8_threshold: 6.0}", 2),
              HasSubstr("'llm_int8_threshold' cannot be had"));
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
