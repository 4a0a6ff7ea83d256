//===- SymbolicTest.cpp - Sizes are computed as Python does ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/symbolic/Expr.h"
#include "support/Error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

using namespace fsdp;
using namespace fsdp::capture;

namespace {

using Symbols = std::map<std::string, int64_t>;

Number evaluate(const std::string &text, const Symbols &symbols = {}) {
  auto lookupSymbol = [&](llvm::StringRef name) -> std::optional<Number> {
    auto found = symbols.find(name.str());
    return found == symbols.end() ? std::nullopt
                                  : std::optional<Number>(found->second);
  };
  // "x.size.0", as tests write it.
  auto lookupSource =
      [&](const SymbolicSource &source) -> std::optional<Number> {
    auto found = symbols.find(source.property.empty()
                                  ? source.input
                                  : source.input + "." + source.property + "." +
                                        std::to_string(source.index));
    return found == symbols.end() ? std::nullopt
                                  : std::optional<Number>(found->second);
  };
  return SymbolicExpr::parse(text).evaluate({lookupSymbol, lookupSource});
}

std::string refusal(const std::string &text, const Symbols &symbols = {}) {
  try {
    return "no error, but " + toString(evaluate(text, symbols));
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::DynamicDimension);
    return error.what();
  }
}

#define EXPECT_NUMBER(text, ...)                                               \
  EXPECT_EQ(toString(evaluate(text)), toString(Number(__VA_ARGS__))) << text

int64_t operator""_i(unsigned long long value) {
  return static_cast<int64_t>(value);
}

TEST(SymbolicExpr, DividesAndRoundsAsPython) {
  EXPECT_NUMBER("7 // 2", 3_i);
  EXPECT_NUMBER("-7 // 2", -4_i);
  EXPECT_NUMBER("7 // -2", -4_i);
  EXPECT_NUMBER("-7 // -2", 3_i);
  EXPECT_NUMBER("-7 % 3", 2_i);
  EXPECT_NUMBER("7 % -3", -2_i);
  EXPECT_NUMBER("6 % -3", 0_i);
  EXPECT_NUMBER("-7.5 // 2", -4.0);
  EXPECT_NUMBER("-7.5 % 2", 0.5);
  EXPECT_NUMBER("7 / 2", 3.5);
  EXPECT_NUMBER("6 / 2", 3.0);
  EXPECT_NUMBER("2 ** 10", 1024_i);
  EXPECT_NUMBER("2 ** -1", 0.5);
  EXPECT_NUMBER("-2 ** 2", -4_i);
  EXPECT_NUMBER("2 ** 3 ** 2", 512_i);
  EXPECT_NUMBER("2.0 ** 0.5", std::sqrt(2.0));
  EXPECT_NUMBER("round(2.5)", 2_i);
  EXPECT_NUMBER("round(3.5)", 4_i);
  EXPECT_NUMBER("round(-2.5)", -2_i);
  EXPECT_NUMBER("round(2.675, 2)", 2.67);
  EXPECT_NUMBER("math.floor(-1.5)", -2_i);
  EXPECT_NUMBER("math.ceil(-1.5)", -1_i);
  EXPECT_NUMBER("math.trunc(-1.5)", -1_i);
  EXPECT_NUMBER("int(2.9)", 2_i);
  EXPECT_NUMBER("5 >> 1", 2_i);
  EXPECT_NUMBER("5 << 3", 40_i);
  EXPECT_NUMBER("6 & 3 | 8", 10_i);
  EXPECT_NUMBER("True + 1", 2_i);
  EXPECT_NUMBER("abs(-3)", 3_i);
}

TEST(SymbolicExpr, ComparesAsPython) {
  EXPECT_NUMBER("1 < 2 <= 2", true);
  EXPECT_NUMBER("1 < 2 < 2", false);
  EXPECT_NUMBER("not 1 == 2", true);
  EXPECT_NUMBER("1 == 1.0", true);
  EXPECT_NUMBER("1 != 1 or 3 > 2 and 2 >= 3", false);
  EXPECT_NUMBER("9007199254740993 == 9007199254740992.0", false);
  EXPECT_NUMBER("4 if 1 > 2 else 5", 5_i);
  EXPECT_NUMBER("max(1, 3, 2)", 3_i);
  EXPECT_NUMBER("torch.sym_min(1.5, 2)", 1.5);
  // What is not reached is not computed.
  EXPECT_NUMBER("0 == 0 or 1 // 0", true);
  EXPECT_NUMBER("7 if True else 1 // 0", 7_i);
}

/// As torch.export writes them.
TEST(SymbolicExpr, ReadsSizesOfArchives) {
  auto at = [](const char *text, int64_t s) {
    return toString(evaluate(text, {{"s27", s}}));
  };
  const char *symbol = "Symbol('s27', positive=True, integer=True)";
  EXPECT_EQ(at(symbol, 5), "5");
  EXPECT_EQ(at("Add(Mul(Integer(12), Symbol('s27', positive=True, "
               "integer=True)), Integer(-1))",
               2),
            "23");
  EXPECT_EQ(at("TruncToInt(Mul(Float('1.5', precision=53), "
               "ToFloat(FloorDiv(Add(Symbol('s27', positive=True, "
               "integer=True), Integer(-1)), Integer(4)))))",
               21),
            "7");
  EXPECT_EQ(at("Piecewise(ExprCondPair(Integer(3), "
               "StrictGreaterThan(Symbol('s27', integer=True), Integer(4))), "
               "ExprCondPair(Pow(Symbol('s27', integer=True), Integer(2)), "
               "true))",
               3),
            "9");
  EXPECT_EQ(at("Mod(Symbol('s27', integer=True), Integer(4))", 7), "3");
  EXPECT_EQ(at("Min(Integer(5), Symbol('s27', integer=True))", 9), "5");
  EXPECT_EQ(at("CeilDiv(Symbol('s27', integer=True), Integer(4))", 9), "3");
  EXPECT_EQ(at("ModularIndexing(Symbol('s27', integer=True), Integer(4), "
               "Integer(5))",
               47),
            "1");
  EXPECT_EQ(at("BitwiseFn_bitwise_and(Symbol('s27', integer=True), "
               "Integer(3))",
               7),
            "3");
  EXPECT_EQ(at("Mul(Rational(1, 2), Symbol('s27', integer=True))", 3), "1.5");
  EXPECT_EQ(at("12*s27 - 1", 2), "23");

  SymbolicExpr expr = SymbolicExpr::parse(
      "Mul(Symbol('a', positive=True), Symbol('b'), Symbol('a'))");
  EXPECT_EQ(expr.getSymbols(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(expr.isPositive("a"));
  EXPECT_FALSE(expr.isPositive("b"));
  EXPECT_EQ(expr.getAsSymbol(), "");
  EXPECT_EQ(SymbolicExpr::parse(symbol).getAsSymbol(), "s27");
}

TEST(SymbolicExpr, ReadsConditionsOfArchives) {
  Symbols sizes = {{"x.size.0", 4},
                   {"x.size.1", 6},
                   {"batch_y.size.0", 8},
                   {"lst_0_q.stride.1", 2},
                   {"k", 3}};
  auto holds = [&](const char *text) { return isTrue(evaluate(text, sizes)); };
  EXPECT_TRUE(holds("2*L['x'].size()[0] == L['batch']['y'].size()[0]"));
  EXPECT_FALSE(holds("L['x'].size()[1] % 4 == 0"));
  EXPECT_TRUE(holds("L['lst'][0]['q'].stride()[1] == 2"));
  EXPECT_TRUE(holds("L['k'] >= 0 and L['k'] <= 4"));
  EXPECT_TRUE(holds("math.trunc(1.5*torch.sym_float(((-1) + "
                    "L['x'].size()[1]) // 4)) != 2"));
  EXPECT_EQ(
      SymbolicExpr::parse("2*L['x'].size()[0] > L['batch']['y'].size()[1]")
          .print([](const SymbolicSource &source) {
            return source.input + "." + std::to_string(source.index);
          }),
      "2*x.0 > batch_y.1");
}

TEST(SymbolicExpr, RefusesWhatItCannotCompute) {
  EXPECT_NE(refusal("1 // 0").find("divides by zero"), std::string::npos);
  EXPECT_NE(refusal("1 % 0").find("divides by zero"), std::string::npos);
  EXPECT_NE(refusal("9223372036854775807 + 1").find("beyond 64 bits"),
            std::string::npos);
  EXPECT_NE(refusal("10 ** 30").find("beyond 64 bits"), std::string::npos);
  EXPECT_NE(refusal("int(1e30)").find("beyond 64 bits"), std::string::npos);
  EXPECT_NE(refusal("(-2.0) ** 0.5").find("negative"), std::string::npos);
  EXPECT_NE(refusal("Zeta(2)").find("'Zeta', which is not known"),
            std::string::npos);
  EXPECT_NE(refusal("FloorDiv(2)").find("1 arguments"), std::string::npos);
  EXPECT_NE(refusal("Symbol('u0', integer=True)").find("'u0'"),
            std::string::npos);
  EXPECT_NE(refusal("L['z'].size()[0] == 1").find("'z'"), std::string::npos);
  for (const char *text :
       {"", "1 +", "(1", "L[", "L", "f(1", "1 2", "'s'1", "x.y", "1..2", "L['x",
        "max(,)", "Symbol('s'", "99999999999999999999"})
    EXPECT_NE(refusal(text).find("is not understood"), std::string::npos)
        << text;
  EXPECT_NE(refusal(std::string(100000, '(')).find("is not understood"),
            std::string::npos);
  std::string chain = "1";
  for (int i = 0; i < 100000; ++i)
    chain += "+1";
  EXPECT_NE(refusal(chain).find("is not understood"), std::string::npos);
  EXPECT_NE(refusal(std::string(100000, '-')).find("is not understood"),
            std::string::npos);
}

} // namespace
