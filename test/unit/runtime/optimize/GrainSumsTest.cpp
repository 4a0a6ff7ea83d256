//===- GrainSumsTest.cpp - Sums of a rank's grains ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/optimize/GrainSums.h"
#include "plan/Grains.h"
#include "runtime/comm/Reduce.h"
#include "runtime/optimize/BlockUpdate.h"

#include "gtest/gtest.h"
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <bit>

using namespace fsdp;

namespace {

std::vector<at::Tensor> makeGrains(uint32_t count, int64_t elements,
                                   c10::ScalarType type) {
  at::Generator generator = at::detail::createCPUGenerator(5);
  std::vector<at::Tensor> grains;
  for (uint32_t i = 0; i < count; ++i)
    grains.push_back(at::randn({elements}, generator).to(type));
  return grains;
}

/// Each sum rounded to the type, in LibTorch's arithmetic.
at::Tensor sumTree(std::span<const at::Tensor> grains) {
  if (grains.size() == 1)
    return grains[0];
  size_t left = std::bit_ceil(grains.size()) / 2;
  return sumTree(grains.first(left)) + sumTree(grains.subspan(left));
}

/// Of a rank with `own` of the grains that the rank with most has.
at::Tensor sumOnRank(std::span<const at::Tensor> grains, uint32_t most,
                     double divisor) {
  uint32_t depth = countPartialSums(most);
  at::Tensor partials =
      at::full({depth, grains[0].numel()}, NAN).to(grains[0].scalar_type());
  at::Tensor output = at::empty_like(grains[0]);
  for (uint32_t i = 0; i < most; ++i) {
    bool isIdle = i >= grains.size();
    // What it computes then may be anything.
    at::Tensor grain = isIdle ? at::full_like(output, NAN) : grains[i];
    if (i + 1 == most)
      endGrains(partials, countKept(i), grain, isIdle, divisor, output);
    else
      addGrain(partials, i, grain, isIdle);
  }
  return output;
}

TEST(GrainSums, AreTheTreesSums) {
  for (c10::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (uint32_t most : {2, 3, 4, 6, 7, 8, 13, 16}) {
      std::vector<at::Tensor> grains = makeGrains(most, 70001, type);
      for (uint32_t own : {most, most - 1, (most + 1) / 2}) {
        std::span<const at::Tensor> mine(grains.data(), own);
        EXPECT_TRUE(at::equal(sumOnRank(mine, most, 1), sumTree(mine)))
            << type << " " << own << " of " << most;
      }
    }
}

TEST(GrainSums, AreDividedOnce) {
  std::vector<at::Tensor> grains = makeGrains(6, 333, at::kFloat);
  EXPECT_TRUE(at::equal(sumOnRank(grains, 6, 6), sumTree(grains) / 6));
}

TEST(GrainSums, KeepTheSignOfZero) {
  std::vector<at::Tensor> grains{at::full({5}, -0.0)};
  at::Tensor sum = sumOnRank(grains, 4, 1);
  EXPECT_TRUE(at::signbit(sum).all().item<bool>());
}

/// Ranks with one node each, whose sums are summed over ranks.
TEST(GrainSums, AreTheSameOverRanks) {
  for (uint32_t count : {5, 8, 12})
    for (uint32_t ranks = 1; ranks <= count; ++ranks) {
      std::vector<at::Tensor> grains = makeGrains(count, 1500, at::kBFloat16);
      std::vector<GrainBlock> blocks = dealGrains(count, 1, ranks);
      uint32_t most = getMostGrains(blocks);
      std::vector<at::Tensor> sums;
      std::vector<const void *> sources;
      for (const GrainBlock &block : blocks) {
        std::span<const at::Tensor> own(grains.data() + block.first,
                                        block.count);
        sums.push_back(most == 1 ? own[0] : sumOnRank(own, most, 1));
        sources.push_back(sums.back().const_data_ptr());
      }
      Combination combination(plan::Reduction::tree, 1, count);
      combination.order = orderSums(blocks);
      at::Tensor output = at::empty_like(sums[0]);
      void *to = output.mutable_data_ptr();
      reduceRows(sources, {&to, 1}, 1500, plan::DType::bf16, combination);
      EXPECT_TRUE(at::equal(output, sumTree(grains) / int64_t(count)))
          << count << " on " << ranks;
    }
}

/// An element's new value does not depend on what stands beside it.
TEST(GrainSums, UpdatesDoNotDependOnTheCut) {
  const UpdateRule rule{OptimizerKind::adamw,
                        {{OptimizerNumber::beta1, 0.9},
                         {OptimizerNumber::beta2, 0.99},
                         {OptimizerNumber::eps, 1e-6},
                         {OptimizerNumber::weight_decay, 0.1}}};
  const UpdateNumbers numbers{1e-2, 3, 1.7f};
  int64_t count = 1000;
  std::vector<at::Tensor> parts = makeGrains(4, count, at::kFloat);
  parts[3].abs_();
  auto update = [&](int64_t begin, int64_t end) {
    UpdatedTensor tensor;
    auto take = [&](size_t i) { return parts[i].slice(0, begin, end).clone(); };
    tensor.param = take(0);
    tensor.grad = take(1);
    tensor.moments = {take(2), take(3)};
    tensor.pieces = cutEvenly(end - begin);
    fsdp::update(rule, numbers, tensor, std::nullopt);
    return tensor.param;
  };
  at::Tensor whole = update(0, count);
  for (int64_t at : {1, 7, 129, 333, 998})
    EXPECT_TRUE(at::equal(at::cat({update(0, at), update(at, count)}), whole));
}

} // namespace
