//===- ReplacedOpsTest.cpp - Operators replaced above autograd ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention and norms choose their implementation by device. On meta tensors
// they must choose what the target would. Dropout is the same everywhere.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/TargetScope.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/function.h>

#include <gtest/gtest.h>

#include <thread>

using at::Tensor;

namespace {

/// A leaf of the same layout without data.
Tensor copyToMeta(const Tensor &tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(),
                           tensor.options().device(at::kMeta))
      .set_requires_grad(tensor.requires_grad());
}

Tensor leaf(std::vector<int64_t> sizes, at::ScalarType dtype = at::kFloat) {
  return at::randn(sizes, at::kFloat).to(dtype).set_requires_grad(true);
}

struct Attention {
  Tensor query, key, value;
  std::optional<Tensor> mask = std::nullopt;
  bool causal = false;
  bool grouped = false;

  Tensor run() const {
    return at::scaled_dot_product_attention(query, key, value, mask, 0.0,
                                            causal, std::nullopt, grouped);
  }
  Attention onMeta() const {
    return {copyToMeta(query),
            copyToMeta(key),
            copyToMeta(value),
            mask ? std::optional(copyToMeta(*mask)) : std::nullopt,
            causal,
            grouped};
  }
};

/// Name of the outermost gradient function, and of what feeds it.
std::string gradientPath(const Tensor &tensor) {
  std::string text;
  auto node = tensor.grad_fn();
  for (int depth = 0; node && depth < 4; ++depth) {
    text += node->name() + " ";
    node = node->num_outputs() ? node->next_edge(0).function : nullptr;
  }
  return text;
}

void expectSame(const Attention &attention) {
  Tensor want = attention.run(), got = attention.onMeta().run();
  EXPECT_EQ(gradientPath(got), gradientPath(want));
  EXPECT_EQ(got.sizes(), want.sizes());
  EXPECT_EQ(got.strides(), want.strides());
  EXPECT_EQ(got.scalar_type(), want.scalar_type());
}

} // namespace

TEST(ReplacedOps, AttentionFused) {
  Attention plain{leaf({2, 4, 6, 8}), leaf({2, 4, 6, 8}), leaf({2, 4, 6, 8})};
  EXPECT_NE(gradientPath(plain.run()).find("FlashAttentionForCpu"),
            std::string::npos);
  expectSame(plain);
  plain.causal = true;
  expectSame(plain);
  plain.causal = false;
  plain.mask = at::ones({6, 6}, at::kBool).tril();
  expectSame(plain);
  plain.mask = at::randn({2, 1, 6, 6});
  expectSame(plain);
  expectSame({leaf({2, 4, 6, 8}, at::kBFloat16),
              leaf({2, 4, 6, 8}, at::kBFloat16),
              leaf({2, 4, 6, 8}, at::kBFloat16)});
}

TEST(ReplacedOps, AttentionByPosition) {
  Tensor packed = leaf({2, 6, 3, 4, 8});
  auto part = [](const Tensor &from, int64_t index) {
    return from.permute({2, 0, 3, 1, 4}).select(0, index);
  };
  auto run = [&](const Tensor &from) {
    return at::scaled_dot_product_attention(
        part(from, 0), part(from, 1), part(from, 2), std::nullopt, 0.0, true);
  };
  Tensor want = run(packed), got = run(copyToMeta(packed));
  EXPECT_EQ(gradientPath(got), gradientPath(want));
  EXPECT_EQ(got.strides(), want.strides());
}

TEST(ReplacedOps, AttentionDecomposed) {
  // Heads of unlike width.
  Attention wide{leaf({2, 4, 6, 8}), leaf({2, 4, 6, 8}), leaf({2, 4, 6, 10})};
  EXPECT_EQ(gradientPath(wide.run()).find("FlashAttentionForCpu"),
            std::string::npos);
  expectSame(wide);
  // A mask that is itself trained.
  Attention masked{leaf({2, 4, 6, 8}), leaf({2, 4, 6, 8}), leaf({2, 4, 6, 8}),
                   leaf({6, 6})};
  expectSame(masked);
  // Three dimensions.
  expectSame({leaf({4, 6, 8}), leaf({4, 6, 8}), leaf({4, 6, 8})});
  // Key heads shared by several query heads.
  Attention grouped{leaf({2, 4, 6, 8}), leaf({2, 2, 6, 8}), leaf({2, 2, 6, 8})};
  grouped.grouped = true;
  expectSame(grouped);
  grouped.causal = true;
  expectSame(grouped);
}

TEST(ReplacedOps, AttentionWithoutAutograd) {
  at::NoGradGuard noGrad;
  expectSame({leaf({2, 4, 6, 8}), leaf({2, 4, 6, 8}), leaf({2, 4, 6, 8})});
}

TEST(ReplacedOps, AttentionWithDropoutIsDecomposed) {
  Attention meta =
      Attention{leaf({2, 4, 6, 8}), leaf({2, 4, 6, 8}), leaf({2, 4, 6, 8})}
          .onMeta();
  Tensor output = at::scaled_dot_product_attention(
      meta.query, meta.key, meta.value, std::nullopt, 0.1);
  EXPECT_EQ(gradientPath(output).find("ScaledDotProduct"), std::string::npos);
}

TEST(ReplacedOps, DropoutKeepsAMask) {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    Tensor input = copyToMeta(leaf({4, 6}, dtype));
    Tensor got = at::dropout(input, 0.1, /*train=*/true);
    EXPECT_EQ(gradientPath(got).find("NativeDropoutBackward0"), 0u);
    EXPECT_EQ(got.scalar_type(), dtype);
    Tensor inPlace = input.mul(2);
    at::dropout_(inPlace, 0.1, /*train=*/true);
    // By the scale and the mask.
    EXPECT_EQ(gradientPath(inPlace).find("MulBackward1 MulBackward0"), 0u);
    // Nothing to draw: the input itself.
    EXPECT_TRUE(at::dropout(input, 0, /*train=*/true).is_same(input));
    EXPECT_TRUE(at::dropout(input, 0.5, /*train=*/false).is_same(input));
  }
}

TEST(ReplacedOps, BatchNormWritesItsStatistics) {
  namespace functional = at::functionalization::impl;
  auto wrap = [](std::vector<int64_t> sizes) {
    return functional::to_functional_tensor(
        at::empty(sizes, at::device(at::kMeta)));
  };
  for (bool training : {false, true}) {
    Tensor input = wrap({4, 6, 3, 3}), mean = wrap({6}), var = wrap({6});
    Tensor before = functional::from_functional_tensor(mean);
    Tensor output = at::batch_norm(input, std::nullopt, std::nullopt, mean, var,
                                   training, 0.1, 1e-5, false);
    EXPECT_EQ(output.sizes(), input.sizes());
    functional::sync(mean);
    Tensor after = functional::from_functional_tensor(mean);
    EXPECT_EQ(after.is_same(before), !training);
  }
}

TEST(ReplacedOps, RmsNormIsFusedForCudaAlone) {
  auto path = [](const Tensor &input, const std::optional<Tensor> &weight) {
    Tensor output = at::rms_norm(copyToMeta(input), {8}, weight);
    EXPECT_EQ(output.sizes(), input.sizes());
    EXPECT_EQ(output.scalar_type(), input.scalar_type());
    return gradientPath(output);
  };
  Tensor input = leaf({2, 3, 8}), weight = copyToMeta(leaf({8}));
  std::string decomposed =
      gradientPath(at::rms_norm(input, {8}, leaf({8}), std::nullopt));
  fsdp::Target cuda;
  cuda.device = fsdp::Target::Device::Cuda;
  EXPECT_EQ(path(input, weight), decomposed);
  {
    fsdp::meta::TargetScope scope(cuda);
    EXPECT_EQ(path(input, weight).find("FusedRmsNormBackward0"), 0u);
    EXPECT_EQ(path(input, std::nullopt).find("FusedRmsNormBackward0"), 0u);
    // Nor does PyTorch use it for channels last, complex numbers, or operands
    // of two types.
    Tensor last =
        at::randn({2, 3, 4, 8}).contiguous(at::MemoryFormat::ChannelsLast);
    EXPECT_EQ(path(last.set_requires_grad(true), weight).find("FusedRmsNorm"),
              std::string::npos);
    for (at::ScalarType dtype : {at::kBFloat16, at::kComplexFloat})
      EXPECT_EQ(path(leaf({2, 3, 8}, dtype), weight).find("FusedRmsNorm"),
                std::string::npos);
    EXPECT_EQ(path(leaf({2, 3, 8}, at::kComplexFloat), std::nullopt)
                  .find("FusedRmsNorm"),
              std::string::npos);
    {
      fsdp::meta::TargetScope inner(fsdp::Target{});
      EXPECT_EQ(path(input, weight), decomposed);
    }
    // A target is that of one thread.
    std::string other;
    std::thread([&] { other = path(input, weight); }).join();
    EXPECT_EQ(other, decomposed);
  }
  EXPECT_EQ(path(input, weight), decomposed);
}

/// An exported program may have the operator itself.
TEST(ReplacedOps, FusedRmsNormOfUnlikeTypesIsDecomposed) {
  fsdp::Target cuda;
  cuda.device = fsdp::Target::Device::Cuda;
  fsdp::meta::TargetScope scope(cuda);
  Tensor weight = copyToMeta(leaf({8}));
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    auto [output, roots] = at::_fused_rms_norm(
        copyToMeta(leaf({2, 3, 8}, dtype)), {8}, weight, std::nullopt);
    EXPECT_EQ(output.scalar_type(), dtype);
    EXPECT_EQ(roots.scalar_type(), at::kFloat);
    EXPECT_EQ(roots.sizes(), (std::vector<int64_t>{2, 3, 1}));
    EXPECT_EQ(gradientPath(output).find("FusedRmsNormBackward0") == 0,
              dtype == at::kFloat);
  }
}
