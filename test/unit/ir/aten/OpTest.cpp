//===- OpTest.cpp - Build and read ops of the aten dialect ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Verifier.h"
#include <gtest/gtest.h>

#include <chrono>

using namespace mlir;
using namespace fsdp::aten;

namespace {

class AtenOp : public ::testing::Test {
protected:
  AtenOp() : builder(&context), loc(builder.getUnknownLoc()) {
    context.loadDialect<AtenDialect>();
    module = ModuleOp::create(loc);
    builder.setInsertionPointToStart(module->getBody());
    type = RankedTensorType::get({4, 8}, builder.getF32Type());
    x = buildAtenOp(
            builder, loc, "aten.ones", {},
            {{builder.getStringAttr("size"), builder.getI64ArrayAttr({4, 8})}},
            type)
            ->getResult(0);
  }

  NamedAttribute named(StringRef name, Attribute value) {
    return {builder.getStringAttr(name), value};
  }

  MLIRContext context;
  OpBuilder builder;
  Location loc;
  OwningOpRef<ModuleOp> module;
  RankedTensorType type;
  Value x;
};

TEST_F(AtenOp, NormalFormDropsDefaults) {
  auto property = [&](Attribute alpha) {
    return buildAtenOp(builder, loc, "aten.add.Tensor", {x, x},
                       {named("alpha", alpha)}, type)
        ->getPropertiesAsAttribute();
  };
  EXPECT_EQ(property(builder.getI64IntegerAttr(1)),
            builder.getDictionaryAttr({}));
  EXPECT_EQ(property(Attribute()), builder.getDictionaryAttr({}));
  EXPECT_NE(property(builder.getI64IntegerAttr(2)),
            builder.getDictionaryAttr({}));
  EXPECT_TRUE(succeeded(verify(*module)));
}

TEST_F(AtenOp, NormalFormConvertsAndDropsRuntimeChoices) {
  Operation *op =
      buildAtenOp(builder, loc, "aten.native_layer_norm", {x},
                  {named("normalized_shape", builder.getI64ArrayAttr({8})),
                   named("eps", builder.getI64IntegerAttr(1))},
                  {type, type, type});
  EXPECT_EQ(getStaticArgument(op, "eps"), builder.getF64FloatAttr(1.0));
  Operation *zeros =
      buildAtenOp(builder, loc, "aten.zeros", {},
                  {named("size", builder.getI64ArrayAttr({4, 8})),
                   named("pin_memory", builder.getBoolAttr(false))},
                  type);
  EXPECT_FALSE(zeros->getInherentAttr("pin_memory"));
  EXPECT_TRUE(succeeded(verify(*module)));
}

TEST_F(AtenOp, ListsHolesAndAbsentTensors) {
  Operation *index = buildAtenOp(builder, loc, "aten.index.Tensor",
                                 {x, ArrayRef<Value>{Value(), x}}, {}, type);
  auto bound = getTensorArguments(index);
  ASSERT_EQ(bound.size(), 2u);
  EXPECT_EQ(bound[1].tensors, (SmallVector<Value, 1>{Value(), x}));

  Operation *layerNorm =
      buildAtenOp(builder, loc, "aten.native_layer_norm", {x, Value(), x},
                  {named("normalized_shape", builder.getI64ArrayAttr({8})),
                   named("eps", builder.getF64FloatAttr(1e-5))},
                  {type, type, type});
  bound = getTensorArguments(layerNorm);
  ASSERT_EQ(bound.size(), 3u);
  EXPECT_TRUE(bound[1].none);
  EXPECT_EQ(bound[2].tensors.front(), x);

  // An empty list is not an absent one.
  Operation *norms = buildAtenOp(builder, loc, "aten._foreach_norm.Scalar",
                                 {ArrayRef<Value>{}}, {}, {});
  EXPECT_FALSE(getTensorArguments(norms).front().none);
  EXPECT_TRUE(succeeded(verify(*module)));
}

TEST_F(AtenOp, SetAttrReachesTheProperty) {
  Operation *op =
      buildAtenOp(builder, loc, "aten.add.Tensor", {x, x},
                  {named("alpha", builder.getI64IntegerAttr(2))}, type);
  op->setAttr("alpha", builder.getI64IntegerAttr(3));
  EXPECT_EQ(getStaticArgument(op, "alpha"), builder.getI64IntegerAttr(3));
  EXPECT_TRUE(op->getDiscardableAttrDictionary().empty());
  EXPECT_EQ(op->clone()->getPropertiesAsAttribute(),
            op->getPropertiesAsAttribute());
}

TEST_F(AtenOp, ViewSource) {
  auto half = RankedTensorType::get({2, 8}, builder.getF32Type());
  Operation *split = buildAtenOp(
      builder, loc, "aten.split.Tensor", {x},
      {named("split_size", builder.getI64IntegerAttr(2))}, {half, half});
  EXPECT_EQ(getViewSource(split->getOpResult(1)), x);
  Operation *view =
      buildAtenOp(builder, loc, "aten._unsafe_view", {x},
                  {named("size", builder.getI64ArrayAttr({4, 8}))}, type);
  EXPECT_EQ(getViewSource(view->getOpResult(0)), x);
  Operation *relu = buildAtenOp(builder, loc, "aten.relu", {x}, {}, type);
  EXPECT_FALSE(getViewSource(relu->getOpResult(0)));
  Operation *inPlace = buildAtenOp(builder, loc, "aten.relu_", {x}, {}, type);
  EXPECT_FALSE(getViewSource(inPlace->getOpResult(0)));
}

TEST_F(AtenOp, LayoutsAreCanonical) {
  Type f32 = builder.getF32Type();
  EXPECT_EQ(getTensorType({4, 8}, {8, 1}, f32), type);
  // Strides of dims of size 1, and of empty tensors, do not matter.
  EXPECT_TRUE(isContiguous(getTensorType({1, 8}, {77, 1}, f32)));
  EXPECT_TRUE(isContiguous(getTensorType({0, 8}, {1, 5}, f32)));
  EXPECT_EQ(getTensorType({1, 4, 8}, {1, 1, 4}, f32),
            getTensorType({1, 4, 8}, {32, 1, 4}, f32));
  RankedTensorType strided = getTensorType({8, 4}, {1, 8}, f32);
  EXPECT_FALSE(isContiguous(strided));
  EXPECT_EQ(getStrides(strided), (SmallVector<int64_t>{1, 8}));
  EXPECT_EQ(getStrides(type), (SmallVector<int64_t>{8, 1}));
  EXPECT_EQ(getStorageBytes(strided), 128);
  EXPECT_EQ(getStorageBytes(getTensorType({2, 2}, {10, 1}, f32)), 48);
  EXPECT_EQ(getStorageBytes(getTensorType({0, 8}, {8, 1}, f32)), 0);
  EXPECT_EQ(getStorageBytes(RankedTensorType::get({}, builder.getI1Type())), 1);
  EXPECT_EQ(getElementBytes(ComplexType::get(f32)), 8);
}

TEST_F(AtenOp, LayoutsKeepTheFormatThatKernelsRead) {
  Type f32 = builder.getF32Type();
  auto strides = [&](ArrayRef<int64_t> shape, ArrayRef<int64_t> given) {
    return getStrides(getTensorType(shape, given, f32));
  };
  using Strides = SmallVector<int64_t>;
  // Channels last, of one image and of one row, too.
  EXPECT_EQ(strides({1, 2, 1, 3}, {6, 1, 6, 2}), (Strides{6, 1, 6, 2}));
  EXPECT_EQ(strides({1, 3, 4, 4}, {99, 1, 12, 3}), (Strides{48, 1, 12, 3}));
  // The same to a reader of elements; a kernel takes none for channels last.
  EXPECT_EQ(strides({1, 2, 1, 3}, {1, 1, 2, 2}), (Strides{2, 1, 6, 2}));
  EXPECT_EQ(strides({2, 3, 1, 4}, {12, 1, 3, 3}), (Strides{12, 1, 3, 3}));
  EXPECT_EQ(strides({1, 2, 1, 2, 2}, {1, 1, 2, 4, 2}),
            (Strides{2, 1, 8, 4, 2}));
}

// All operators register without reading a schema.
TEST(AtenDialect, LoadsQuickly) {
  MLIRContext context;
  auto start = std::chrono::steady_clock::now();
  context.loadDialect<AtenDialect>();
  std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  RecordProperty("microseconds", int(taken.count() * 1e6));
  std::printf("registered %zu operators in %.2f ms\n", getNumSchemas(),
              taken.count() * 1e3);
  // A loaded machine takes several times the usual 3 ms.
  EXPECT_LT(taken.count(), 0.1);
}

} // namespace
