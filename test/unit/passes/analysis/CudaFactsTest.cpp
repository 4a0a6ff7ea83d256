//===- CudaFactsTest.cpp - What is known of CUDA kernels ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "ir/fsdp/Fsdp.h"
#include "passes/analysis/CudaScratch.h"
#include "passes/analysis/CudaSyncs.h"
#include "passes/analysis/ScratchBound.h"

#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp;
using namespace mlir;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {

constexpr int64_t kMiB = int64_t(1) << 20;
constexpr int64_t kWorkspaces = 64 * kMiB; ///< of an sm_90

TEST(CudaFacts, EachConditionHasARule) {
  for (size_t i = 0; i < aten::getNumSchemas(); ++i) {
    StringRef name = aten::getSchemaName(i);
    uint32_t flags = aten::getSchemaFlags(i);
    EXPECT_EQ(bool(flags & aten::MaySyncOnCuda), hasCudaSyncRule(name))
        << name.str();
    EXPECT_EQ(bool(flags & aten::CudaScratchRule), hasCudaScratchRule(name))
        << name.str();
    // What is said of an operator is said once.
    uint32_t syncs =
        flags & (aten::SyncsOnCuda | aten::SolvesOnCuda | aten::MaySyncOnCuda);
    uint32_t scratch =
        flags & (aten::CudaScratchNone | aten::CudaScratchStrided |
                 aten::CudaScratchSums | aten::CudaScratchRule);
    EXPECT_EQ(syncs & (syncs - 1), 0u) << name.str();
    EXPECT_EQ(scratch & (scratch - 1), 0u) << name.str();
  }
}

/// A program of one line or a few, which reads its arguments.
class CudaProgram : public testing::Test {
protected:
  CudaProgram() {
    context.loadDialect<func::FuncDialect, FsdpDialect, aten::AtenDialect>();
  }

  /// The last op.
  Operation *parse(const std::string &arguments, const std::string &body,
                   const std::string &attributes = "") {
    module = parseSourceString<ModuleOp>(
        "module attributes {fsdp.device = \"cuda:sm_90\"" + attributes +
            "} {\n  func.func @\"infer/step\"(" + arguments +
            ") attributes {fsdp.program = #fsdp.program<kind = infer>} {\n" +
            body + "\n    return\n  }\n}\n",
        ParserConfig(&context));
    if (!module)
      return nullptr;
    func::FuncOp program = *module->getOps<func::FuncOp>().begin();
    return program.getBody().front().getTerminator()->getPrevNode();
  }
  std::string syncs(const std::string &arguments, const std::string &body,
                    int capability = 90) {
    Operation *op = parse(arguments, body);
    return op ? getCudaSync(op, capability).str() : "not parsed";
  }
  /// Without workspaces; of what is not bounded -1.
  int64_t scratch(const std::string &arguments, const std::string &body,
                  bool isDeterministic = false) {
    Operation *op = parse(arguments, body);
    if (!op)
      return -2;
    KernelScratch found = getCudaScratch(op, {90, isDeterministic});
    return found.isBounded ? found.bytes : -1;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(CudaProgram, MasksAreCountedByTheHost) {
  const std::string given = "%x: tensor<4x8xf32>, %m: tensor<4x8xi1>, %i: "
                            "tensor<3xi64>, %y: tensor<f32>";
  EXPECT_EQ(syncs(given,
                  "%0 = aten.index_put(%x, [%m], %y) : (tensor<4x8xf32>, "
                  "tensor<4x8xi1>, tensor<f32>) -> tensor<4x8xf32>"),
            "the host counts what a mask selects");
  EXPECT_EQ(syncs(given,
                  "%0 = aten.index_put(%x, [%i], %y) : (tensor<4x8xf32>, "
                  "tensor<3xi64>, tensor<f32>) -> tensor<4x8xf32>"),
            "");
}

TEST_F(CudaProgram, NumbersOfTheProgramAreOnTheHost) {
  const std::string given = "%x: tensor<4x8xf32>, %m: tensor<4x8xi1>, %y: "
                            "tensor<f32>";
  EXPECT_EQ(syncs(given, "%0 = aten.masked_fill.Tensor(%x, %m, %y) : "
                         "(tensor<4x8xf32>, tensor<4x8xi1>, tensor<f32>) -> "
                         "tensor<4x8xf32>"),
            "the host reads a number that the GPU computed");
  EXPECT_EQ(syncs(given, "%c = fsdp.constant wrapped dense<0.5> : tensor<f64>\n"
                         "%0 = aten.masked_fill.Tensor(%x, %m, %c) : "
                         "(tensor<4x8xf32>, tensor<4x8xi1>, tensor<f64>) -> "
                         "tensor<4x8xf32>"),
            "");
}

TEST_F(CudaProgram, GroupsAreMultipliedByOneKernelOnSomeGpus) {
  auto product = [&](const std::string &type, int capability) {
    return syncs("%a: tensor<32x16x" + type + ">, %b: tensor<2x16x16x" + type +
                     ">, %o: tensor<2xi32>",
                 "%0 = aten._grouped_mm(%a, %b, %o) : (tensor<32x16x" + type +
                     ">, tensor<2x16x16x" + type +
                     ">, tensor<2xi32>) -> tensor<32x16x" + type + ">",
                 capability);
  };
  EXPECT_EQ(product("bf16", 90), "");
  EXPECT_EQ(product("bf16", 100), "");
  EXPECT_EQ(product("bf16", 80), "the host reads where the groups end");
  EXPECT_EQ(product("f16", 90), "the host reads where the groups end");
  EXPECT_EQ(product("f32", 90), "the host reads where the groups end");
}

TEST_F(CudaProgram, LengthsOfSegmentsAreCheckedAndOffsetsAreNot) {
  auto reduce = [&](const std::string &ends) {
    return syncs("%x: tensor<5xf32>, %n: tensor<2xi64>",
                 "%0 = aten.segment_reduce(%x, reduce = \"sum\", " + ends +
                     ", axis = 0, unsafe = false) : "
                     "(tensor<5xf32>, tensor<2xi64>) -> tensor<2xf32>");
  };
  EXPECT_EQ(reduce("%n, none, none"), "the host checks the lengths");
  EXPECT_EQ(reduce("none, none, %n"), "");
}

TEST_F(CudaProgram, SolversWorkWithTheHost) {
  EXPECT_EQ(syncs("%x: tensor<4x4xf32>",
                  "%0, %1 = aten._linalg_eigh(%x) : (tensor<4x4xf32>) -> "
                  "(tensor<4xf32>, tensor<4x4xf32>)"),
            "the host takes part in what cuSOLVER computes, or checks it");
  // Seen in a CUDA graph.
  EXPECT_EQ(syncs("%x: tensor<4x4xf32>",
                  "%0, %1 = aten.linalg_cholesky_ex(%x) : (tensor<4x4xf32>) "
                  "-> (tensor<4x4xf32>, tensor<i32>)"),
            "");
  EXPECT_EQ(syncs("%x: tensor<8xf32>",
                  "%0 = aten.add.Tensor(%x, %x) : (tensor<8xf32>, "
                  "tensor<8xf32>) -> tensor<8xf32>"),
            "");
}

TEST_F(CudaProgram, EmbeddingsSortManyIndices) {
  auto backward = [&](int64_t tokens) {
    std::string count = std::to_string(tokens);
    return scratch("%g: tensor<" + count + "x64xbf16>, %i: tensor<" + count +
                       "xi64>",
                   "%0 = aten.embedding_dense_backward(%g, %i, num_weights = "
                   "1000, padding_idx = -1, scale_grad_by_freq = false) : "
                   "(tensor<" +
                       count + "x64xbf16>, tensor<" + count +
                       "xi64>) -> tensor<1000x64xbf16>");
  };
  EXPECT_EQ(backward(3072), 0);
  // Sums in f32 of 1000 runs and of parts of ten; three lists of 8192 numbers,
  // and what a sort of them works in; four of runs.
  constexpr int64_t parts = 819 + 1000;
  EXPECT_EQ(backward(8192), parts * 64 * 4 + 3 * 8192 * 8 + 4 * 8192 * 8 +
                                4 * kMiB + (3 * 1000 + parts) * 8);
}

TEST_F(CudaProgram, FlashAttentionsBackwardAddsUpInF32) {
  auto backward = [&](const std::string &keys, bool isDeterministic) {
    const std::string q = "tensor<2x8x256x64xbf16>",
                      k = "tensor<2x" + keys + "x256x64xbf16>",
                      l = "tensor<2x8x256xf32>", n = "tensor<2xui64>",
                      e = "tensor<ui64>";
    return scratch(
        "%q: " + q + ", %k: " + k + ", %l: " + l + ", %s: " + n + ", %e: " + e,
        "%0, %1, %2 = aten._scaled_dot_product_flash_attention_backward(%q, "
        "%q, %k, %k, %q, %l, none, none, max_q = 256, max_k = 256, dropout_p = "
        "0.0, is_causal = true, %s, %e) : (" +
            q + ", " + q + ", " + k + ", " + k + ", " + q + ", " + l + ", " +
            n + ", " + e + ") -> (" + q + ", " + k + ", " + k + ")",
        isDeterministic);
  };
  constexpr int64_t rows = 2 * 8 * 256;
  EXPECT_EQ(backward("8", false), rows * 4 * (64 + 1));
  // Each of the blocks that share 16 heads has its own.
  EXPECT_EQ(backward("8", true), rows * 4 * (10 * 64 + 1));
  // Gradients of keys and values of each head that shares them.
  EXPECT_EQ(backward("2", false), rows * 4 * (64 + 1) + 2 * rows * 64 * 2);
}

TEST_F(CudaProgram, ToldFlashAttentionHasRowsBetweenDocuments) {
  const std::string q = "tensor<512x8x64xbf16>", k = "tensor<512x2x64xbf16>",
                    l = "tensor<8x512xf32>", b = "tensor<5xi32>",
                    n = "tensor<2xui64>", e = "tensor<ui64>";
  int64_t backward = scratch(
      "%q: " + q + ", %k: " + k + ", %l: " + l + ", %b: " + b + ", %s: " + n +
          ", %e: " + e,
      "%0, %1, %2 = aten._flash_attention_backward(%q, %q, %k, %k, %q, %l, "
      "%b, %b, %s, %e, max_q = 512, max_k = 512, dropout_p = 0.0, is_causal = "
      "true) : (" +
          q + ", " + q + ", " + k + ", " + k + ", " + q + ", " + l + ", " + b +
          ", " + b + ", " + n + ", " + e + ") -> (" + q + ", " + k + ", " + k +
          ")");
  EXPECT_EQ(backward,
            int64_t(8) * (512 + 4 * 128) * 4 * (64 + 1) + 2 * 512 * 8 * 64 * 2);
  // Rows of a batch are whole blocks; heads stand behind positions.
  const std::string r = "tensor<2x500x4x64xbf16>", m = "tensor<2x4x500xf32>";
  int64_t window = scratch(
      "%q: " + r + ", %l: " + m + ", %s: " + n + ", %e: " + e,
      "%0, %1, %2 = aten._flash_attention_backward(%q, %q, %q, %q, %q, %l, "
      "none, none, %s, %e, max_q = 500, max_k = 500, dropout_p = 0.0, "
      "is_causal = false, window_size_left = 63, window_size_right = 0) : (" +
          r + ", " + r + ", " + r + ", " + r + ", " + r + ", " + m + ", " + n +
          ", " + e + ") -> (" + r + ", " + r + ", " + r + ")");
  EXPECT_EQ(window, int64_t(2) * 4 * 512 * 4 * (64 + 1));
}

TEST_F(CudaProgram, ProductsCopyWhatCublasDoesNotTake) {
  auto product = [&](const std::string &strides) {
    std::string a = "tensor<8x16xf32" + strides + ">";
    return scratch("%a: " + a + ", %b: tensor<16x4xf32>",
                   "%0 = aten.mm(%a, %b) : (" + a +
                       ", tensor<16x4xf32>) -> tensor<8x4xf32>");
  };
  EXPECT_EQ(product(""), 0);
  EXPECT_EQ(product(", #aten.strides<1, 8>"), 0);
  EXPECT_EQ(product(", #aten.strides<32, 1>"), 0);
  EXPECT_EQ(product(", #aten.strides<32, 2>"), 8 * 16 * 4);
  std::string half = "tensor<8x16xbf16, #aten.strides<32, 2>>";
  EXPECT_EQ(scratch("%a: " + half + ", %b: tensor<16x4xbf16>",
                    "%0 = aten.mm.dtype(%a, %b, out_dtype = f32) : (" + half +
                        ", tensor<16x4xbf16>) -> tensor<8x4xf32>"),
            8 * 16 * 2);
}

TEST_F(CudaProgram, WhatIsUnknownIsNamed) {
  parse("%x: tensor<1x2x8x8xf32>, %w: tensor<2x2x3x3xf32>",
        "%0 = aten.add.Tensor(%x, %x) : (tensor<1x2x8x8xf32>, "
        "tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>");
  ASSERT_TRUE(module);
  std::optional<ScratchBound> bound = getScratchBound(*module);
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->bytes, kWorkspaces);
  EXPECT_THAT(bound->unknown, IsEmpty());

  parse("%x: tensor<1x2x8x8xf32>, %w: tensor<2x2x3x3xf32>",
        "%0 = aten.convolution(%x, %w, none, stride = [1, 1], padding = [1, "
        "1], dilation = [1, 1], transposed = false, output_padding = [0, 0], "
        "groups = 1) : (tensor<1x2x8x8xf32>, tensor<2x2x3x3xf32>) -> "
        "tensor<1x2x8x8xf32>");
  ASSERT_TRUE(module);
  bound = getScratchBound(*module);
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->bytes, kWorkspaces);
  EXPECT_THAT(bound->unknown, ElementsAre("aten.convolution"));
}

/// Kernels of our own have a row of sums for each block; nothing for what lies
/// along rows.
TEST_F(CudaProgram, SumsOverRowsTakePartialRows) {
  auto bound = [&](const std::string &dims, const std::string &result) {
    parse("%x: tensor<512x64xf32>",
          "%0 = fsdp.kernel(%x) in_place [false] : (tensor<512x64xf32>) -> " +
              result + " {\n^bb0(%a: tensor<512x64xf32>):\n" +
              "%1 = aten.sum.dim_IntList(%a, dim = " + dims +
              ", keepdim = false, dtype = none) : (tensor<512x64xf32>) -> " +
              result + "\nfsdp.yield %1 : " + result + "\n}");
    EXPECT_TRUE(module);
    return module ? getScratchBound(*module)->bytes - kWorkspaces : -1;
  };
  EXPECT_EQ(bound("[0]", "tensor<64xf32>"), 264 * 64 * 4);
  EXPECT_EQ(bound("[1]", "tensor<512xf32>"), 0);
}

TEST(CudaWorkspaces, DependOnTheGpuUnlessBitsHaveToRepeat) {
  EXPECT_EQ(getCudaWorkspaces({90, false}), kWorkspaces);
  EXPECT_EQ(getCudaWorkspaces({80, false}), 2 * (8 * kMiB + 128 * 1024));
  EXPECT_EQ(getCudaWorkspaces({80, true}), kWorkspaces);
}

} // namespace
