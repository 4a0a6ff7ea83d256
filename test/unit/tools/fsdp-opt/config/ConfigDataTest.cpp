//===- ConfigDataTest.cpp - What the config says of data ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/tools/fsdp-opt/config/ConfigText.h"

using namespace fsdp;
using namespace fsdp::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

TEST(Config, ReadsData) {
  Config config =
      parseConfig("data: {tokens: [a_*.bin, /b/c.bin], format: llm.c, "
                  "dtype: uint32, inputs: [x, mask], targets: y, shuffle: "
                  "true, seed: 7, epochs: 3, drop_last: false}\n"
                  "eval: {data: [d.bin, e.bin], every: 10, batches: 4}\n",
                  "runs/fsdp.yaml", 2)
          .config;
  ASSERT_TRUE(config.data && config.validation);
  const plan::DataT &data = config.data->data;
  EXPECT_THAT(data.files, ElementsAre("runs/a_*.bin", "/b/c.bin"));
  EXPECT_EQ(data.format, plan::TokenFormat::llm_c);
  EXPECT_EQ(data.dtype, plan::DType::u32);
  EXPECT_THAT(data.inputs, ElementsAre("x", "mask"));
  EXPECT_THAT(data.targets, ElementsAre("y"));
  EXPECT_TRUE(data.shuffle);
  EXPECT_EQ(data.seed, 7u);
  EXPECT_EQ(data.epochs, 3u);
  EXPECT_FALSE(data.drop_last);
  EXPECT_THAT(config.validation->files,
              ElementsAre("runs/d.bin", "runs/e.bin"));
  EXPECT_EQ(config.validation->every, 10u);
  EXPECT_EQ(config.validation->batches, 4u);
  config = parse("data: {samples: a.safetensors}", 2).config;
  EXPECT_THAT(config.data->data.files, ElementsAre("a.safetensors"));
  EXPECT_TRUE(config.data->data.drop_last);
  EXPECT_FALSE(config.validation);
  // Before the section that it needs.
  EXPECT_TRUE(
      parse("eval: {data: a.bin}\ndata: {inputs: x}", 2).config.validation);
  EXPECT_TRUE(parse("eval: {data: a.safetensors}", 2).config.validation);
  EXPECT_TRUE(parse("eval: {}", 2).config.validation);
}

TEST(Config, ReadsWhatIsBehindShortRows) {
  Config config =
      parse("data: {pad: {x: 2, y: -0.5}, length_pool: 96, length_group: 32, "
            "labels: y, label_count: n, shifts_labels: false}",
            2)
          .config;
  const plan::DataT &data = config.data->data;
  ASSERT_EQ(data.pad.size(), 2u);
  EXPECT_EQ(data.pad[0]->input, "x");
  EXPECT_EQ(data.pad[0]->value, 2);
  EXPECT_EQ(data.pad[1]->value, -0.5);
  EXPECT_EQ(data.length_pool, 96u);
  EXPECT_EQ(data.length_group, 32u);
  EXPECT_EQ(data.labels, "y");
  EXPECT_EQ(data.label_count, "n");
  EXPECT_FALSE(data.shifts_labels);
}

TEST(Config, RefusesDataThatSaysTooMuchOrTooLittle) {
  for (auto [text, expected] :
       {std::pair("data: {tokens: a.bin}", "E046 fsdp.yaml:1:7: 'data' has "
                                           "'tokens' and no 'inputs'"),
        std::pair("data: {tokens: a.bin, inputs: x, samples: b.safetensors}",
                  "has both 'tokens' and 'samples'"),
        std::pair("data: {samples: b.safetensors, dtype: uint16}",
                  "E044 fsdp.yaml:1:39: 'dtype' says how 'tokens' are read"),
        std::pair("data: {samples: b.bin}", "expected a .safetensors file"),
        std::pair("data: {tokens: b.safetensors, inputs: x}",
                  "name it with 'samples'"),
        std::pair("data: {tokens: [], inputs: x}", "a path or a list of paths"),
        std::pair("data: {targets: x}", "E046"),
        std::pair("data: {inputs: [x, y], targets: y}",
                  "'y' is among 'inputs' and 'targets'"),
        std::pair("data: {inputs: x, format: nanogpd}",
                  "did you mean 'nanogpt'?"),
        std::pair("data: {inputs: x, dtype: int16}",
                  "expected one of uint16, uint32"),
        std::pair("data: {shufle: true}",
                  "unknown key 'shufle' in data; did you mean 'shuffle'?"),
        std::pair("data: {epochs: 0}", "expected a number from 1"),
        std::pair("data: {length_pool: 100}",
                  "E044 fsdp.yaml:1:21: 'length_pool' is sorted and cut into "
                  "groups of 64 rows"),
        std::pair("data: {length_group: 0}", "expected a number from 1"),
        std::pair("data: {pad: 3}", "a map of inputs and numbers"),
        std::pair("data: {pad: {x: y}}", "'pad': expected"),
        std::pair("data: {label_count: n}",
                  "E046 fsdp.yaml:1:21: 'label_count' counts labels, and "
                  "nothing says whether the model leaves out the first one"),
        std::pair("data: {seed: -1}", "expected a number from 0"),
        std::pair("eval: {every: 2}",
                  "E046 fsdp.yaml:1:7: 'eval' has no 'data'"),
        std::pair("eval: {data: a.bin}", "no key 'inputs' of 'data'"),
        std::pair("eval: {data: [a.safetensors, b.bin]}",
                  "expected token files, or one safetensors file"),
        std::pair("eval: {data: a.safetensors, every: 0}",
                  "expected a number from 1"),
        std::pair("eval: {data: a.safetensors, evry: 1}",
                  "did you mean 'every'?"),
        std::pair("shuffle: true", "it belongs into data")})
    EXPECT_THAT(refusal(text, 2), HasSubstr(expected)) << text;
  EXPECT_THAT(parse("data: {drop_last: true}", 2).notes,
              ElementsAre(HasSubstr("no effect without 'epochs'")));
  EXPECT_THAT(parse("data: {length_group: 32, shifts_labels: true}", 2).notes,
              ElementsAre(HasSubstr("rows are not sorted"),
                          HasSubstr("no labels are counted")));
}

} // namespace
