//===- TableTest.cpp - The tables of rules --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/Rules.h"

#include "ir/aten/Schema.h"

#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

using namespace fsdp;

namespace {

llvm::SmallVector<KernelRule> listRules() {
  llvm::SmallVector<KernelRule> all;
  for (llvm::ArrayRef<KernelRule> family :
       {getArithmeticRules(), getComparisonRules(), getActivationRules(),
        getCastRules(), getColumnRules(), getReductionRules(),
        getSoftmaxRules(), getNormRules(), getLossRules()})
    llvm::append_range(all, family);
  return all;
}

TEST(KernelTableTest, EachOperatorHasOneRule) {
  llvm::StringSet<> names;
  for (const KernelRule &rule : listRules())
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name.str();
}

TEST(KernelTableTest, RulesAreOfOperatorsThatThereAre) {
  llvm::StringSet<> operators;
  for (size_t i = 0; i < aten::getNumSchemas(); ++i) {
    llvm::StringRef name = aten::getSchemaName(i);
    name.consume_front("aten.");
    operators.insert(name.split('.').first);
  }
  for (const KernelRule &rule : listRules())
    EXPECT_TRUE(operators.contains(rule.name)) << rule.name.str();
}

TEST(KernelTableTest, TheDocumentHasEachOperator) {
  std::ifstream file(FSDP_KERNELS_DOCUMENT);
  std::stringstream text;
  text << file.rdbuf();
  for (const KernelRule &rule : listRules())
    EXPECT_NE(text.str().find("`" + rule.name.str() + "`"), std::string::npos)
        << rule.name.str();
}

} // namespace
