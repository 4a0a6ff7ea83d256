//===- SchemaTest.cpp - Rows of the operator table ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Schema.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"
#include <gtest/gtest.h>

using namespace fsdp::aten;

namespace {

std::string print(mlir::Attribute attr) {
  std::string text;
  llvm::raw_string_ostream os(text);
  attr.print(os);
  return text;
}

// Each row reads: no argument lacks a name, no default lacks a value.
TEST(Schema, EveryRowReads) {
  mlir::MLIRContext context;
  for (size_t i = 0; i < getNumSchemas(); ++i) {
    const Schema &schema = getSchema(i);
    EXPECT_EQ(lookupSchema(schema.name), &schema) << schema.name.str();
    EXPECT_EQ(schema.writes(), getSchemaWrites(i)) << schema.name.str();
    for (const Argument &argument : schema.arguments) {
      EXPECT_FALSE(argument.name.empty()) << schema.text.str();
      EXPECT_EQ(argument.name.find_first_of("()[] ,=!?"), llvm::StringRef::npos)
          << schema.text.str();
      if (argument.isTensor() || argument.isRuntimeChoice() ||
          !argument.hasDefault || argument.defaultText == "None")
        continue;
      EXPECT_TRUE(argument.getDefault(&context)) << schema.text.str();
    }
  }
}

TEST(Schema, ReadsKindsAndDefaults) {
  mlir::MLIRContext context;
  const Schema &add = *lookupSchema("aten.add.Tensor");
  ASSERT_EQ(add.arguments.size(), 3u);
  EXPECT_EQ(add.arguments[2].kind, Kind::Scalar);
  EXPECT_EQ(print(add.arguments[2].getDefault(&context)), "1 : i64");
  EXPECT_TRUE(add.is(Pointwise));
  EXPECT_FALSE(add.is(NondeterministicSeeded));

  const Schema &index = *lookupSchema("aten.index.Tensor");
  EXPECT_EQ(index.arguments[1].kind, Kind::OptionalTensorList);

  const Schema &sum = *lookupSchema("aten.sum.dim_IntList");
  EXPECT_EQ(sum.find("dim")->kind, Kind::IntList);
  EXPECT_TRUE(sum.find("dim")->optional);
  EXPECT_EQ(sum.find("dim")->listSize, 1);
  EXPECT_EQ(print(sum.find("keepdim")->getDefault(&context)), "false");
  EXPECT_FALSE(sum.find("dtype")->getDefault(&context));
  EXPECT_EQ(sum.find("self")->name, "self");
  EXPECT_EQ(sum.find("nothing"), nullptr);

  // One number stands for both dims.
  const Schema &pool = *lookupSchema("aten.max_pool2d");
  EXPECT_EQ(print(pool.find("dilation")->getDefault(&context)), "[1, 1]");
  const Schema &norm = *lookupSchema("aten.norm.ScalarOpt_dim");
  EXPECT_TRUE(norm.find("p")->optional);
  EXPECT_EQ(lookupSchema("aten.gelu")->find("approximate")->kind, Kind::String);
  EXPECT_EQ(
      print(
          lookupSchema("aten.gelu")->find("approximate")->getDefault(&context)),
      "\"none\"");
  EXPECT_TRUE(
      lookupSchema("aten.zeros")->find("pin_memory")->isRuntimeChoice());
  EXPECT_TRUE(lookupSchema("aten.zeros")->find("device")->isRuntimeChoice());
}

TEST(Schema, KnowsViews) {
  EXPECT_EQ(lookupSchema("aten.t")->getViewSource(0), 0);
  EXPECT_EQ(lookupSchema("aten.split.Tensor")->getViewSource(0), 0);
  EXPECT_EQ(lookupSchema("aten._unsafe_view")->getViewSource(0), 0);
  EXPECT_EQ(lookupSchema("aten.mm")->getViewSource(0), -1);
  // In place: the result is the operand itself.
  EXPECT_EQ(lookupSchema("aten.add_.Tensor")->getViewSource(0), -1);
  EXPECT_TRUE(lookupSchema("aten.add_.Tensor")->writes());
}

// What Facts.def says beside LibTorch: for all overloads, or for one schema.
TEST(Schema, KnowsFacts) {
  EXPECT_TRUE(lookupSchema("aten.add.Tensor")->is(ScratchPromotes));
  EXPECT_TRUE(lookupSchema("aten.add.Scalar")->is(ScratchPromotes));
  EXPECT_FALSE(lookupSchema("aten.add_.Tensor")->is(ScratchPromotes));
  EXPECT_TRUE(lookupSchema("aten.lerp.Scalar")->is(MixedWidest));
  EXPECT_TRUE(lookupSchema("aten.mm")->is(CpuCastLower));
  const Schema &source = *lookupSchema("aten.set.source_Tensor");
  EXPECT_EQ(source.getViewSource(0), 1);
  const Schema &attention =
      *lookupSchema("aten._scaled_dot_product_flash_attention_backward");
  EXPECT_TRUE(attention.find("cum_seq_q")->optional);
  EXPECT_FALSE(attention.find("query")->optional);
}

TEST(Schema, KnowsNoOthers) {
  EXPECT_EQ(lookupSchema("aten.nosuch"), nullptr);
  EXPECT_EQ(lookupSchema("add.Tensor"), nullptr);
  EXPECT_EQ(lookupSchema(""), nullptr);
}

} // namespace
