//===- LivenessTest.cpp - Lifetimes, and the bytes they sum up to ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "passes/analysis/LiveBytes.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace mlir;

namespace {

/// One program, by the names of its values.
class LivenessTest : public testing::Test {
protected:
  LivenessTest() {
    context.loadDialect<func::FuncDialect, FsdpDialect, aten::AtenDialect>();
  }

  void parse(llvm::StringRef states, llvm::StringRef program) {
    std::string text =
        ("#shard = #fsdp.group<\"shard\", 2>\n"
         "module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {\n" +
         states + program + "}\n")
            .str();
    module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
    ASSERT_TRUE(module);
    function = *module->getOps<func::FuncOp>().begin();
    liveness = std::make_unique<Liveness>(function);
  }

  Operation *op(int64_t position) {
    return &*std::next(function.getBody().front().begin(), position);
  }
  const Storage &of(Value value) {
    return liveness->getStorages()[liveness->getStorage(value)];
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  std::unique_ptr<Liveness> liveness;
};

TEST_F(LivenessTest, ViewsKeepTheirSourceAlive) {
  parse("", R"(
  func.func @"train/step"(%x: tensor<4x8xf32> {fsdp.input = "x"}) -> (tensor<8x4xf32> {fsdp.output = "y"}) {
    %a = aten.neg(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %v = aten.t(%a) : (tensor<4x8xf32>) -> tensor<8x4xf32, #aten.strides<1, 8>>
    %b = aten.neg(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %c = aten.clone(%v, memory_format = "contiguous") : (tensor<8x4xf32, #aten.strides<1, 8>>) -> tensor<8x4xf32>
    %d = aten.neg(%c) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %d : tensor<8x4xf32>
  })");
  const Storage &input = of(function.getArgument(0));
  EXPECT_EQ(input.kind, StorageKind::Input);
  EXPECT_EQ(input.first, -1);
  EXPECT_EQ(input.last, liveness->getEnd());
  const Storage &a = of(op(0)->getResult(0));
  EXPECT_EQ(&a, &of(op(1)->getResult(0)));
  EXPECT_EQ(a.kind, StorageKind::Activation);
  EXPECT_EQ(a.bytes, 128);
  EXPECT_EQ(a.first, 0);
  EXPECT_EQ(a.last, 3); // the clone reads its view
  // Nobody reads it, but it is written.
  EXPECT_EQ(of(op(2)->getResult(0)).first, 2);
  EXPECT_EQ(of(op(2)->getResult(0)).last, 2);
  // A result lives to the end.
  EXPECT_EQ(of(op(4)->getResult(0)).last, 5);
}

/// A gather with padding, a product, and the reduction of its gradient.
constexpr const char *kStep = R"(
  func.func @"train/step"(%w: tensor<2x32xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr},
                          %x: tensor<2x32xf32> {fsdp.input = "x"}) -> (tensor<2x32xf32> {fsdp.state = @w}) {
    %f = fsdp.start all_gather "w"(%w) dims [0] over #shard on gather : tensor<2x32xf32> -> !fsdp.future<tensor<3x32xf32>>
    %other = aten.neg(%x) : (tensor<2x32xf32>) -> tensor<2x32xf32>
    %full = fsdp.wait %f : !fsdp.future<tensor<3x32xf32>> -> tensor<3x32xf32>
    %g = aten.neg(%full) : (tensor<3x32xf32>) -> tensor<3x32xf32>
    %h = fsdp.start reduce_scatter avg "w"(%g) dims [0] over #shard on reduce of [@w] : tensor<3x32xf32> -> !fsdp.future<tensor<2x32xf32>>
    %more = aten.neg(%x) : (tensor<2x32xf32>) -> tensor<2x32xf32>
    %s = fsdp.wait %h : !fsdp.future<tensor<2x32xf32>> -> tensor<2x32xf32>
    %n = fsdp.update sgd params(%w) grads(%s) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<2x32xf32>
    return %n : tensor<2x32xf32>
  })";
constexpr const char *kStates = R"(
  fsdp.state parameter @w : tensor<3x32xf32> sharded <dim 0 over #shard>
  fsdp.state scalar @lr : tensor<f32>
)";

TEST_F(LivenessTest, TransfersHoldTheirTensorsFromStartToWait) {
  parse(kStates, kStep);
  const Storage &full = of(op(2)->getResult(0));
  EXPECT_EQ(full.kind, StorageKind::Gathered);
  EXPECT_EQ(full.bytes, 4 * 32 * 4) << "room for two ranks' two rows";
  EXPECT_EQ(full.first, 0);
  EXPECT_EQ(full.last, 3);
  const Storage &gradient = of(op(3)->getResult(0));
  EXPECT_EQ(gradient.kind, StorageKind::Gradient);
  EXPECT_EQ(gradient.bytes, 4 * 32 * 4);
  EXPECT_EQ(gradient.last, 6) << "the wait ends the transfer";
  const Storage &shard = of(op(6)->getResult(0));
  EXPECT_EQ(shard.kind, StorageKind::Gradient);
  EXPECT_EQ(shard.first, 4);
  EXPECT_EQ(shard.last, 7);
  // The optimizer works in the state's place.
  EXPECT_EQ(of(op(7)->getResult(0)).kind, StorageKind::State);
  EXPECT_TRUE(liveness->getOwned(op(2)).empty());
  EXPECT_EQ(liveness->getOwned(op(0)).size(), 1u);
}

TEST_F(LivenessTest, CurveSumsUpWhatLivesAtEachOp) {
  parse(kStates, kStep);
  llvm::SmallVector<LivePoint> curve = getLiveCurve(*liveness);
  // By hand: x is 256 bytes; the gathered tensor and the gradient 512 each.
  int64_t expected[] = {256 + 512,       256 + 512 + 256, 256 + 512,
                        256 + 512 + 512, 256 + 512 + 256, 256 + 512 + 256 + 256,
                        256 + 512 + 256, 256 + 256,       256};
  for (int64_t time = 0; time < 9; ++time) {
    LivePoint at;
    for (const LivePoint &point : curve)
      if (point.time <= time)
        at = point;
    EXPECT_EQ(at.use.total(), expected[time]) << "op " << time;
    EXPECT_EQ(at.use.inputs, 256);
  }
  EXPECT_EQ(curve.front().time, -1);
  EXPECT_EQ(curve.back().use.total(), 0);
}

TEST_F(LivenessTest, PeakIsTheFirstHighestPointOfARange) {
  parse(kStates, kStep);
  llvm::SmallVector<LivePoint> curve = getLiveCurve(*liveness);
  LivePoint peak = getPeak(curve);
  EXPECT_EQ(peak.time, 3); // op 5 needs as much
  EXPECT_EQ(peak.use.total(), 1280);
  EXPECT_EQ(peak.use.gathered, 512);
  EXPECT_EQ(peak.use.grads, 512);
  EXPECT_EQ(getPeak(curve, 4).time, 5);
  // What was there before counts from the range's beginning.
  EXPECT_EQ(getPeak(curve, 2, 3).time, 2);
  EXPECT_EQ(getPeak(curve, 2, 3).use.total(), 768);
}

TEST_F(LivenessTest, CurveCountsTheRoomThatTensorsTake) {
  parse("", R"(
  func.func @"train/step"(%x: tensor<3xf32> {fsdp.input = "x"}) -> (tensor<3xf32> {fsdp.output = "y"}) {
    %y = aten.neg(%x) : (tensor<3xf32>) -> tensor<3xf32>
    return %y : tensor<3xf32>
  })");
  EXPECT_EQ(getPeak(getLiveCurve(*liveness)).use.total(), 24);
  EXPECT_EQ(
      getPeak(getLiveCurve(*liveness, [](int64_t) { return 128; })).use.total(),
      256);
}

TEST_F(LivenessTest, ResultsThatLieInTheirStateNeedNothing) {
  parse("  fsdp.state buffer @count : tensor<i64>\n", R"(
  func.func @"train/step"(%count: tensor<i64> {fsdp.state = @count}) -> (tensor<i64> {fsdp.state = @count}) {
    %c = aten.add.Scalar(%count, other = 1) : (tensor<i64>) -> tensor<i64>
    return %c : tensor<i64>
  })");
  unsigned merged = 0;
  for (unsigned i = 0; i < liveness->getStorages().size(); ++i)
    merged += liveness->isMerged(i);
  EXPECT_EQ(merged, 1u);
  EXPECT_TRUE(liveness->getCopies().empty());
  EXPECT_EQ(getPeak(getLiveCurve(*liveness)).use.total(), 0);
}

TEST_F(LivenessTest, ReadsOfWhatWasOverwrittenAreFound) {
  parse(kStates, R"(
  func.func @"train/step"(%w: tensor<2x32xf32> {fsdp.state = @w}, %lr: tensor<f32> {fsdp.state = @lr},
                          %g: tensor<2x32xf32> {fsdp.input = "g"})
      -> (tensor<2x32xf32> {fsdp.state = @w}, tensor<2x32xf32> {fsdp.output = "y"}) {
    %n = fsdp.update sgd params(%w) grads(%g) momentum_buffers() lr %lr momentum 0.0 weight_decay 0.0 : tensor<2x32xf32>
    %y = aten.neg(%w) : (tensor<2x32xf32>) -> tensor<2x32xf32>
    return %n, %y : tensor<2x32xf32>, tensor<2x32xf32>
  })");
  ASSERT_EQ(liveness->getStaleReads().size(), 1u);
  EXPECT_EQ(liveness->getStaleReads()[0].reader, op(1));
  EXPECT_EQ(liveness->getStaleReads()[0].writer, op(0));
}

} // namespace
