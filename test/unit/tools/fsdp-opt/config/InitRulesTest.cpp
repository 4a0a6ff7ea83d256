//===- InitRulesTest.cpp - Rules for first values -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/InitRules.h"
#include "plan/FirstValues.h"
#include "tools/fsdp-opt/config/Config.h"

#include "support/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

using namespace fsdp;
using testing::HasSubstr;

namespace {

/// "uniform(-0.5, 0.5)", a number, or the refusal.
std::string resolve(const char *text, std::vector<int64_t> shape = {6, 10},
                    plan::DType dtype = plan::DType::f32) {
  try {
    auto value = resolveInit(parseInitCall(text), shape, dtype);
    if (auto *init = std::get_if<plan::InitializerT>(&value))
      return describeInitializer(*init);
    return std::to_string(std::get<double>(value));
  } catch (const std::invalid_argument &error) {
    return error.what();
  }
}

/// The bound of a uniform, or the deviation of a normal, distribution.
double getScale(const char *text, std::vector<int64_t> shape) {
  auto value = resolveInit(parseInitCall(text), shape, plan::DType::f32);
  return std::get<plan::InitializerT>(value).arguments[1];
}

TEST(InitRules, DefaultsAreTorchs) {
  EXPECT_EQ(resolve("normal"), "normal(0, 1)");
  EXPECT_EQ(resolve("normal_()"), "normal(0, 1)");
  EXPECT_EQ(resolve("trunc_normal"), "trunc_normal(0, 1, -2, 2)");
  EXPECT_EQ(resolve("uniform"), "uniform(0, 1)");
  EXPECT_EQ(resolve("eye"), "eye");
  EXPECT_EQ(resolve("rope", {4}), "rope(10000)");
  EXPECT_EQ(resolve("zeros"), "0.000000");
  EXPECT_EQ(resolve("ones"), "1.000000");
  EXPECT_EQ(resolve("constant(2.5)"), "2.500000");
  EXPECT_EQ(resolve(" -1e-3 "), "-0.001000");
}

TEST(InitRules, ArgumentsHavePlacesAndNames) {
  EXPECT_EQ(resolve("normal(1, 0.5)"), "normal(1, 0.5)");
  EXPECT_EQ(resolve("normal(std=0.5)"), "normal(0, 0.5)");
  EXPECT_EQ(resolve("trunc_normal( 0,0.02 , b = 1e-1, a=-0.1)"),
            "trunc_normal(0, 0.02, -0.1, 0.1)");
}

// The numbers are those of torch.nn.init for these shapes.
TEST(InitRules, FansAreTorchs) {
  EXPECT_DOUBLE_EQ(getScale("xavier_uniform", {6, 10}), std::sqrt(6.0 / 16));
  EXPECT_DOUBLE_EQ(getScale("xavier_normal(2)", {6, 10}),
                   2 * std::sqrt(2.0 / 16));
  EXPECT_DOUBLE_EQ(getScale("kaiming_uniform", {6, 10}), std::sqrt(6.0 / 10));
  EXPECT_DOUBLE_EQ(
      getScale("kaiming_normal(mode=fan_out, nonlinearity=relu)", {6, 10}),
      std::sqrt(2.0 / 6));
  // nn.Linear's and nn.Conv2d's own: 1 / sqrt(fan_in).
  EXPECT_NEAR(getScale("kaiming_uniform(a=2.23606797749979)", {6, 10}),
              1 / std::sqrt(10), 1e-12);
  EXPECT_NEAR(getScale("kaiming_uniform(2.23606797749979)", {6, 10, 3, 3}),
              1 / std::sqrt(90), 1e-12);
  EXPECT_DOUBLE_EQ(getScale("kaiming_normal(nonlinearity=tanh)", {6, 10}),
                   5.0 / 3 / std::sqrt(10));
}

TEST(InitRules, WrongCallsAreRefused) {
  EXPECT_THAT(resolve("norml(0, 1)"), HasSubstr("did you mean 'normal'?"));
  EXPECT_THAT(resolve("normal(0, 1"), HasSubstr("closing ')'"));
  EXPECT_THAT(resolve("normal(0, 1, 2)"), HasSubstr("at most 2 arguments"));
  EXPECT_THAT(resolve("normal(sd=1)"),
              HasSubstr("'sd' is no argument of normal(mean, std)"));
  EXPECT_THAT(resolve("normal(0, mean=1)"), HasSubstr("stands twice"));
  EXPECT_THAT(resolve("normal(0, x)"), HasSubstr("a number for 'std'"));
  EXPECT_THAT(resolve("normal(0, nan)"), HasSubstr("a number for 'std'"));
  EXPECT_THAT(resolve("constant"), HasSubstr("a number for 'val'"));
  EXPECT_THAT(resolve("kaiming_normal(mode=fan)"),
              HasSubstr("fan_in, fan_out"));
  EXPECT_THAT(resolve("nan"), HasSubstr("expected a number or one of"));
}

TEST(InitRules, WrongTensorsAreRefused) {
  EXPECT_THAT(resolve("kaiming_uniform", {6}), HasSubstr("two or more dims"));
  EXPECT_THAT(resolve("eye", {6}), HasSubstr("needs a matrix"));
  EXPECT_THAT(resolve("rope"), HasSubstr("one dim"));
  EXPECT_THAT(resolve("normal(0, -1)"), HasSubstr("from 0"));
  EXPECT_THAT(resolve("trunc_normal(a=1, b=1)"), HasSubstr("interval"));
  EXPECT_THAT(resolve("uniform(2, 1)"), HasSubstr("interval"));
  EXPECT_THAT(resolve("normal", {6}, plan::DType::i64),
              HasSubstr("floating-point"));
}

std::vector<InitRule> parseRules(const std::string &text) {
  return parseConfig(text, "fsdp.yaml", 1).config.init;
}

const InitRule *find(std::span<const InitRule> rules, std::string name) {
  return findRule(rules, {&name, 1});
}

TEST(InitRules, TheLastMatchCounts) {
  auto rules = parseRules("init: {\"*.weight\": normal(0, 0.02), "
                          "\"*norm*\": ones, exact: 3}");
  ASSERT_EQ(rules.size(), 3u);
  EXPECT_EQ(find(rules, "layers.0.up.weight"), &rules[0]);
  EXPECT_EQ(find(rules, "layers.0.norm.weight"), &rules[1]);
  EXPECT_EQ(find(rules, "exact"), &rules[2]);
  EXPECT_EQ(find(rules, "not.exact"), nullptr);
  EXPECT_EQ(rules[1].place, "fsdp.yaml:1:37");
}

TEST(InitRules, FlowAndBlockStyleAreEqual) {
  auto flow = parseRules("init: {a: trunc_normal(0, 1, -3, 3), b: "
                         "normal(0, 1), c: normal(0, 1)}");
  auto block = parseRules("init:\n  a: trunc_normal(0, 1, -3, 3)\n"
                          "  b: normal(0, 1)\n  c: normal(0, 1)\n");
  ASSERT_EQ(flow.size(), 3u);
  ASSERT_EQ(block.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(flow[i].pattern, block[i].pattern);
    EXPECT_EQ(flow[i].call.numbers, block[i].call.numbers);
  }
}

std::string refusal(const std::string &text) {
  try {
    parseConfig(text, "fsdp.yaml", 1);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

TEST(InitRules, ConfigErrorsNameTheirPlace) {
  EXPECT_THAT(refusal("init: {a: nrmal}"),
              HasSubstr("fsdp.yaml:1:8: 'init' of 'a': expected a number or"));
  EXPECT_THAT(refusal("init: normal"), HasSubstr("expected a map"));
  EXPECT_THAT(refusal("init: {a: [1]}"), HasSubstr("expected a string"));
  EXPECT_THAT(refusal("tied: [a, b]"), HasSubstr("two or more names"));
  EXPECT_THAT(refusal("tied: [[a, b], [b, c]]"), HasSubstr("stands twice"));
  EXPECT_THAT(refusal("weights: {rename: {a: b}}"), HasSubstr("a list of"));
  EXPECT_THAT(refusal("weights: {rename: [{from: \"(\", to: b}]}"),
              HasSubstr("no regular expression"));
  EXPECT_THAT(refusal("weights: {strickt: true}"), HasSubstr("'strict'"));
}

} // namespace
