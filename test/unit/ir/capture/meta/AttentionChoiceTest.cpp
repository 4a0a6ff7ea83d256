//===- AttentionChoiceTest.cpp - Which attention kernel takes a call ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rows state what LibTorch 2.11 with cuDNN 9.19 chooses on such a GPU, but
// for calls that cuDNN is known to compute wrongly.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/AttentionChoice.h"
#include "ir/capture/meta/FlashAttention.h"
#include "ir/capture/meta/TargetScope.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/function.h>

#include <gtest/gtest.h>

#include <algorithm>

using namespace fsdp;
using at::SDPBackend;
using at::Tensor;

namespace {

constexpr SDPBackend cudnn = SDPBackend::cudnn_attention;
constexpr SDPBackend flash = SDPBackend::flash_attention;
constexpr SDPBackend efficient = SDPBackend::efficient_attention;
constexpr SDPBackend math = SDPBackend::math;

using Sizes = std::vector<int64_t>;

struct ChoiceCase {
  std::string name;
  SDPBackend expected;
  int capability = 90;
  at::ScalarType dtype = at::kBFloat16;
  Sizes query = {2, 4, 16, 64};
  Sizes key = query;
  Sizes value = key;
  std::optional<Sizes> mask = std::nullopt;
  bool causal = false;
  bool grouped = false;
  bool trained = true;
  bool maskTrained = false;
  bool transposed = false; ///< the last dim is not the fastest
  bool deterministic = false;
};

Tensor make(Sizes sizes, const ChoiceCase &test) {
  auto options = at::TensorOptions().dtype(test.dtype).device(at::kMeta);
  if (!test.transposed)
    return at::empty(sizes, options).set_requires_grad(test.trained);
  std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
  return at::empty(sizes, options)
      .transpose(-1, -2)
      .set_requires_grad(test.trained);
}

SDPBackend choose(const ChoiceCase &test) {
  std::optional<Tensor> mask;
  if (test.mask)
    mask = at::empty(*test.mask,
                     at::TensorOptions().dtype(test.dtype).device(at::kMeta))
               .set_requires_grad(test.maskTrained);
  sdp::sdp_params call = {make(test.query, test),
                          make(test.key, test),
                          make(test.value, test),
                          mask,
                          /*dropout=*/0.0,
                          test.causal,
                          test.grouped};
  Target target;
  target.device = Target::Device::Cuda;
  target.capability = test.capability;
  target.isDeterministic = test.deterministic;
  return meta::chooseAttention(target, call, std::nullopt);
}

std::vector<ChoiceCase> makeCases() {
  const Sizes few = {2, 2, 16, 64}, one = {2, 4, 1, 64},
              shorter = {2, 4, 8, 64};
  auto wide = [](int64_t dim) { return Sizes{2, 4, 16, dim}; };
  return {
      {"hopper", cudnn},
      {"blackwell", cudnn, 100},
      {"ampere", flash, 80},
      {"ada", flash, 89},
      {"turing_lacks_bfloat16", math, 75},
      {"turing_half", efficient, 75, at::kHalf},
      {"float", efficient, 90, at::kFloat},
      {"double", math, 90, at::kDouble},
      {.name = "mask_hopper",
       .expected = cudnn,
       .query = {2, 4, 16, 64},
       .key = {2, 4, 256, 64},
       .mask = Sizes{16, 256}},
      {.name = "mask_over_a_part_of_a_tile_of_keys_hopper",
       .expected = efficient,
       .query = {2, 4, 128, 64},
       .key = {2, 4, 192, 64},
       .mask = Sizes{128, 192}},
      {.name = "mask_over_a_part_of_a_tile_of_keys_blackwell",
       .expected = efficient,
       .capability = 100,
       .mask = Sizes{16, 16}},
      {.name = "causal_over_a_part_of_a_tile_of_keys_hopper",
       .expected = cudnn,
       .query = {2, 4, 192, 64},
       .causal = true},
      {.name = "mask_ampere",
       .expected = efficient,
       .capability = 80,
       .mask = Sizes{2, 1, 16, 16}},
      {.name = "trained_mask",
       .expected = efficient,
       .mask = Sizes{16, 16},
       .maskTrained = true},
      {.name = "causal_of_unlike_lengths_ampere",
       .expected = efficient,
       .capability = 80,
       .query = shorter,
       .key = wide(64),
       .causal = true},
      {.name = "causal_of_unlike_lengths_hopper",
       .expected = cudnn,
       .query = shorter,
       .key = wide(64),
       .causal = true},
      {.name = "grouped_hopper",
       .expected = cudnn,
       .key = few,
       .grouped = true},
      {.name = "few_groups_blackwell",
       .expected = flash,
       .capability = 100,
       .key = few,
       .grouped = true},
      {.name = "many_groups_blackwell",
       .expected = cudnn,
       .capability = 100,
       .query = {2, 32, 16, 64},
       .key = {2, 8, 16, 64},
       .grouped = true},
      {.name = "few_heads_without_groups_blackwell",
       .expected = cudnn,
       .capability = 100},
      {.name = "grouped_ampere",
       .expected = flash,
       .capability = 80,
       .key = few,
       .grouped = true},
      {.name = "grouped_float",
       .expected = math,
       .dtype = at::kFloat,
       .key = few,
       .grouped = true},
      {.name = "unlike_heads", .expected = math, .key = few},
      {.name = "head_of_odd_size_is_padded",
       .expected = flash,
       .query = wide(65)},
      {.name = "head_of_odd_size_float",
       .expected = math,
       .dtype = at::kFloat,
       .query = wide(6)},
      {.name = "wide_head_hopper", .expected = cudnn, .query = wide(256)},
      {.name = "wide_head_blackwell",
       .expected = flash,
       .capability = 100,
       .query = wide(256)},
      {.name = "wider_than_flash",
       .expected = efficient,
       .capability = 80,
       .query = wide(264)},
      {.name = "latent_attention_blackwell",
       .expected = cudnn,
       .capability = 100,
       .query = wide(192),
       .key = wide(192),
       .value = wide(128)},
      {.name = "wide_head_small_gpu",
       .expected = efficient,
       .capability = 86,
       .query = wide(200)},
      {.name = "wide_head_small_gpu_inference",
       .expected = flash,
       .capability = 86,
       .query = wide(200),
       .trained = false},
      {.name = "widest_head_small_gpu",
       .expected = flash,
       .capability = 86,
       .query = wide(256)},
      {.name = "one_key", .expected = flash, .key = one},
      {.name = "no_query", .expected = math, .query = {2, 4, 0, 64}},
      {.name = "three_dims", .expected = math, .query = {4, 16, 64}},
      {.name = "slow_last_dim", .expected = math, .transposed = true},
  };
}

class AttentionChoice : public testing::TestWithParam<ChoiceCase> {};

TEST_P(AttentionChoice, IsThatOfLibTorch) {
  EXPECT_EQ(choose(GetParam()), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(Cuda, AttentionChoice, testing::ValuesIn(makeCases()),
                         [](const auto &info) { return info.param.name; });

/// What the composite operator makes of a call for `target`.
Tensor attend(Target::Device device, const ChoiceCase &test,
              double dropout = 0) {
  Target target;
  target.device = device;
  target.capability = test.capability;
  meta::TargetScope scope(target);
  std::optional<Tensor> mask;
  if (test.mask)
    mask = at::empty(*test.mask,
                     at::TensorOptions().dtype(at::kBool).device(at::kMeta));
  return at::scaled_dot_product_attention(
      make(test.query, test), make(test.key, test), make(test.value, test),
      mask, dropout, test.causal, std::nullopt, test.grouped);
}

TEST(AttentionTarget, FusedOperatorIsThatOfTheTarget) {
  auto node = [](const Tensor &output) { return output.grad_fn()->name(); };
  ChoiceCase hopper{"", cudnn}, ampere{"", flash, 80},
      single{"", efficient, 90, at::kFloat};
  EXPECT_EQ(node(attend(Target::Device::Cuda, hopper)),
            "ScaledDotProductCudnnAttentionBackward0");
  EXPECT_EQ(node(attend(Target::Device::Cuda, ampere)),
            "ScaledDotProductFlashAttentionBackward0");
  EXPECT_EQ(node(attend(Target::Device::Cuda, single)),
            "ScaledDotProductEfficientAttentionBackward0");
  EXPECT_EQ(node(attend(Target::Device::Cpu, hopper)),
            "ScaledDotProductFlashAttentionForCpuBackward0");
}

TEST(AttentionTarget, CudnnIsNotChosenWhereBitsHaveToRepeat) {
  ChoiceCase test{"", cudnn};
  EXPECT_EQ(choose(test), cudnn);
  test.deterministic = true;
  EXPECT_EQ(choose(test), flash);
  test.mask = Sizes{16, 16};
  EXPECT_EQ(choose(test), efficient);
}

/// By the kernel that is told a window, or where documents begin.
Tensor attendTold(Sizes query, Sizes key, meta::MaskReading within,
                  bool isApart) {
  ChoiceCase test{.name = "", .expected = flash, .query = query, .key = key};
  sdp::sdp_params call = {make(query, test),
                          make(key, test),
                          make(key, test),
                          std::nullopt,
                          0.0,
                          false,
                          true};
  Tensor bounds = isApart
                      ? at::empty({9}, at::device(at::kMeta).dtype(at::kInt))
                      : Tensor();
  return meta::attendToldMask(call, within, bounds, std::nullopt);
}

TEST(AttentionTarget, ToldKernelGivesWhatOthersGive) {
  using meta::MaskForm;
  meta::MaskReading causal{MaskForm::Causal, {}, {}};
  meta::MaskReading window{MaskForm::Window,
                           at::tensor({0, 0, 1, 2}, at::kLong),
                           at::tensor({1, 2, 3, 4}, at::kLong)};
  for (bool isApart : {false, true})
    for (int64_t width : {64, 65})
      for (const meta::MaskReading &within : {causal, window}) {
        Tensor output =
            attendTold({2, 6, 4, width}, {2, 3, 4, width}, within, isApart);
        EXPECT_EQ(output.sizes(), (Sizes{2, 6, 4, width}));
        EXPECT_TRUE(output.requires_grad());
      }
}

TEST(AttentionTarget, OnlyFlashAttentionIsToldMasks) {
  auto takes = [](const ChoiceCase &test, double dropout = 0,
                  Target::Device device = Target::Device::Cuda,
                  bool sharesSequences = false) {
    sdp::sdp_params call = {make(test.query, test),
                            make(test.key, test),
                            make(test.value, test),
                            std::nullopt,
                            dropout,
                            false,
                            test.grouped};
    Target target;
    target.device = device;
    target.capability = test.capability;
    return meta::takesToldMask(target, call, sharesSequences);
  };
  EXPECT_TRUE(takes({.name = "", .expected = flash}));
  EXPECT_TRUE(takes({.name = "", .expected = flash, .capability = 80}));
  EXPECT_TRUE(takes({.name = "", .expected = flash, .query = {2, 4, 16, 65}}));
  EXPECT_FALSE(takes({.name = "", .expected = flash}, 0.1));
  EXPECT_FALSE(takes({.name = "", .expected = flash}, 0, Target::Device::Cpu));
  EXPECT_FALSE(takes({.name = "", .expected = flash, .capability = 75}));
  // Where ranks get parts of sequences, calls for CPUs are made later.
  auto takesOnCpu = [&](at::ScalarType dtype, double dropout) {
    return takes({.name = "", .expected = flash, .dtype = dtype}, dropout,
                 Target::Device::Cpu, /*sharesSequences=*/true);
  };
  EXPECT_TRUE(takesOnCpu(at::kFloat, 0));
  EXPECT_TRUE(takesOnCpu(at::kBFloat16, 0));
  EXPECT_FALSE(takesOnCpu(at::kDouble, 0));
  EXPECT_FALSE(takesOnCpu(at::kFloat, 0.1));
  EXPECT_FALSE(takes({.name = "", .expected = flash, .dtype = at::kFloat}));
  EXPECT_FALSE(takes({.name = "",
                      .expected = flash,
                      .query = {2, 4, 8, 64},
                      .key = {2, 4, 16, 64}}));
  EXPECT_FALSE(takes({.name = "",
                      .expected = flash,
                      .capability = 80,
                      .query = {2, 4, 16, 264},
                      .key = {2, 4, 16, 264},
                      .value = {2, 4, 16, 264}}));
}

TEST(AttentionTarget, OutputHasTheSizesOfQueriesAndValues) {
  ChoiceCase padded{.name = "", .expected = flash, .query = {2, 4, 16, 65}};
  EXPECT_EQ(attend(Target::Device::Cuda, padded).sizes(),
            (Sizes{2, 4, 16, 65}));
  ChoiceCase latent{.name = "",
                    .expected = cudnn,
                    .capability = 100,
                    .query = {2, 4, 16, 192},
                    .key = {2, 4, 16, 192},
                    .value = {2, 4, 16, 128}};
  EXPECT_EQ(attend(Target::Device::Cuda, latent).sizes(),
            (Sizes{2, 4, 16, 128}));
  // Rows of a mask that do not start at multiples of 8 elements are padded.
  ChoiceCase masked{.name = "",
                    .expected = efficient,
                    .capability = 80,
                    .query = {2, 4, 5, 64},
                    .mask = Sizes{5, 5}};
  EXPECT_EQ(attend(Target::Device::Cuda, masked).sizes(), (Sizes{2, 4, 5, 64}));
}

TEST(AttentionTarget, ScopeEnds) {
  Target target;
  target.device = Target::Device::Cuda;
  {
    meta::TargetScope scope(target);
  }
  EXPECT_EQ(meta::getTarget().device, Target::Device::Cpu);
}

} // namespace
