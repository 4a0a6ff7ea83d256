//===- BlockUpdateTest.cpp - Optimizers in blocks -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/optimize/BlockUpdate.h"
#include "support/BlockCodes.h"

#include "gtest/gtest.h"
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <limits>

using namespace fsdp;

namespace {

/// A parameter and a momentum buffer that takes its gradient as it is.
const UpdateRule kCopies{OptimizerKind::sgd, {{OptimizerNumber::momentum, 1}}};
const UpdateRule kAdamW{OptimizerKind::adamw,
                        {{OptimizerNumber::beta1, 0.9},
                         {OptimizerNumber::beta2, 0.99},
                         {OptimizerNumber::eps, 1e-6},
                         {OptimizerNumber::weight_decay, 0.1}}};

UpdatedTensor makeTensor(at::Tensor grad, c10::ScalarType codes,
                         size_t moments) {
  UpdatedTensor tensor;
  int64_t count = grad.numel();
  tensor.param = at::zeros({count});
  tensor.grad = std::move(grad);
  bool isCoded = c10::elementSize(codes) == 1;
  for (size_t i = 0; i < moments; ++i) {
    tensor.moments.push_back(
        at::zeros({count}, at::TensorOptions().dtype(at::kByte)));
    if (codes != at::kByte)
      tensor.moments.back() =
          isCoded ? tensor.moments.back().view(codes)
                  : at::zeros({count}, at::TensorOptions().dtype(codes));
    if (isCoded)
      tensor.scales.push_back(
          at::zeros({(count + kBlockElements - 1) / kBlockElements}));
  }
  tensor.pieces = cutEvenly(count);
  return tensor;
}

/// Numbers over many decades, of both signs, with zeros among them.
at::Tensor makeNumbers(int64_t count) {
  // at::manual_seed would ask for CUDA, whose library other tests load.
  at::Generator generator = at::detail::createCPUGenerator(3);
  at::Tensor numbers = at::randn({count}, generator) *
                       at::pow(10.0, at::rand({count}, generator) * -9);
  numbers.slice(0, 0, count, 97).zero_();
  return numbers;
}

const uint8_t *bytesOf(const at::Tensor &codes) {
  return static_cast<const uint8_t *>(codes.const_data_ptr());
}

TEST(BlockUpdate, StoresTheNearestNumbersOfTheSignedMap) {
  at::Tensor numbers = makeNumbers(20 * kBlockElements + 77);
  UpdatedTensor tensor = makeTensor(numbers.clone(), at::kByte, 1);
  update(kCopies, {0, 1}, tensor, std::nullopt);
  const auto &values = getDynamicMap(true).values;
  const float *from = numbers.data_ptr<float>();
  for (int64_t i = 0; i < numbers.numel(); ++i) {
    float scale = tensor.scales[0].data_ptr<float>()[i / kBlockElements];
    float nearest = std::numeric_limits<float>::infinity();
    for (float value : values)
      nearest = std::min(nearest, std::abs(value - from[i] / scale));
    EXPECT_EQ(std::abs(values[bytesOf(tensor.moments[0])[i]] - from[i] / scale),
              nearest)
        << i << ": " << from[i] / scale;
  }
  at::Tensor padded = at::constant_pad_nd(numbers, {0, kBlockElements - 77});
  EXPECT_TRUE(at::equal(padded.view({-1, kBlockElements}).abs().amax(1),
                        tensor.scales[0]));
}

TEST(BlockUpdate, StoresFloat8AsLibTorchDoes) {
  at::Tensor numbers = makeNumbers(20 * kBlockElements);
  UpdatedTensor tensor = makeTensor(numbers.clone(), at::kFloat8_e4m3fn, 1);
  update(kCopies, {0, 1}, tensor, std::nullopt);
  at::Tensor blocks = numbers.view({-1, kBlockElements});
  at::Tensor scales = blocks.abs().amax(1) / kGreatestFloat8;
  EXPECT_TRUE(at::equal(scales, tensor.scales[0]));
  at::Tensor want = (blocks / scales.unsqueeze(1)).to(at::kFloat8_e4m3fn);
  EXPECT_TRUE(at::equal(want.view(at::kByte).flatten(),
                        tensor.moments[0].view(at::kByte)));
  // And reads them as numbers.
  const auto &values = getFloat8Map().values;
  for (int byte = 0; byte < 256; ++byte) {
    auto want = static_cast<float>(c10::Float8_e4m3fn(
        static_cast<uint8_t>(byte), c10::Float8_e4m3fn::from_bits()));
    EXPECT_TRUE(values[byte] == want ||
                (std::isnan(want) && std::isnan(values[byte])));
  }
}

TEST(BlockUpdate, ComputesWhatLibTorchsKernelsCompute) {
  at::Tensor grad = makeNumbers(3000);
  UpdatedTensor tensor = makeTensor(grad, at::kFloat, 2);
  tensor.param = at::rand({3000});
  at::Tensor param = tensor.param.clone(), m = at::zeros({3000}),
             v = at::zeros({3000});
  for (int step = 1; step <= 3; ++step) {
    update(kAdamW, {1e-2, double(step), 2}, tensor, std::nullopt);
    at::Tensor scale = at::full({}, 2.0f), count = at::full({}, double(step));
    at::Tensor own = grad.clone();
    std::vector<at::Tensor> params{param}, grads{own}, first{m}, second{v},
        steps{count.to(at::kFloat)};
    at::_fused_adamw_(params, grads, first, second, {}, steps, 1e-2, 0.9, 0.99,
                      0.1, 1e-6, false, false, scale);
  }
  EXPECT_TRUE(at::allclose(param, tensor.param, 1e-5, 1e-7));
  EXPECT_TRUE(at::allclose(m, tensor.moments[0], 1e-5, 1e-12));
  EXPECT_TRUE(at::allclose(v, tensor.moments[1], 1e-5, 1e-12));
}

TEST(BlockUpdate, WritesBf16AsLibTorchDoes) {
  at::Tensor numbers = makeNumbers(5000);
  UpdatedTensor tensor = makeTensor(numbers.clone(), at::kBFloat16, 1);
  update(kCopies, {0, 1}, tensor, std::nullopt);
  EXPECT_TRUE(at::equal(tensor.moments[0], numbers.to(at::kBFloat16)));
}

/// What one rank holds of elements [first, first + count) of a larger tensor.
UpdatedTensor slice(const UpdatedTensor &whole, int64_t first, int64_t count) {
  UpdatedTensor part;
  part.param = whole.param.narrow(0, first, count).clone();
  part.grad = whole.grad.narrow(0, first, count).clone();
  for (const at::Tensor &moment : whole.moments)
    part.moments.push_back(moment.narrow(0, first, count).clone());
  for (const at::Tensor &scale : whole.scales)
    part.scales.push_back(scale.clone());
  part.runs = {{0, first, count, 7}};
  part.pieces = cutByWhole(part.runs);
  for (const at::Tensor &scale : whole.scales)
    part.maxima.push_back(at::zeros_like(scale));
  return part;
}

TEST(BlockUpdate, PartsOfBlocksAreCodedAsWholeOnes) {
  constexpr int64_t kCount = 10 * kBlockElements + 40;
  UpdatedTensor whole = makeTensor(makeNumbers(kCount), at::kByte, 2);
  int64_t cuts[] = {0, 100, 612, 612 + kBlockElements, kCount};
  std::vector<UpdatedTensor> parts;
  for (size_t i = 0; i + 1 < std::size(cuts); ++i)
    parts.push_back(slice(whole, cuts[i], cuts[i + 1] - cuts[i]));
  for (int step = 1; step <= 3; ++step) {
    UpdateNumbers numbers{1e-2, double(step)};
    update(kAdamW, numbers, whole, std::nullopt);
    for (UpdatedTensor &part : parts)
      findMaxima(kAdamW, numbers, part);
    for (size_t moment = 0; moment < 2; ++moment) {
      at::Tensor all = parts[0].maxima[moment].clone();
      for (UpdatedTensor &part : parts)
        all = at::maximum(all, part.maxima[moment]);
      for (UpdatedTensor &part : parts)
        part.maxima[moment].copy_(all);
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      update(kAdamW, numbers, parts[i], std::nullopt);
      int64_t first = cuts[i], count = cuts[i + 1] - cuts[i];
      EXPECT_TRUE(
          at::equal(parts[i].param, whole.param.narrow(0, first, count)));
      for (size_t moment = 0; moment < 2; ++moment) {
        EXPECT_TRUE(at::equal(parts[i].moments[moment],
                              whole.moments[moment].narrow(0, first, count)));
        EXPECT_TRUE(at::equal(parts[i].scales[moment], whole.scales[moment]));
      }
    }
  }
}

/// A row of support/Optimizers.def has arithmetic, and a block has room for it.
TEST(BlockUpdate, EveryOptimizerFitsABlock) {
  for (const OptimizerFacts &each : getOptimizers()) {
    EXPECT_LE(each.moments.size(), std::size(Block{}.moments)) << each.name;
    EXPECT_NE(getArithmetic(each.kind).param, nullptr) << each.name;
  }
}

TEST(BlockUpdate, RoundsUpAsOftenAsTheRestSays) {
  constexpr int64_t kCount = 1 << 16;
  UpdatedTensor tensor = makeTensor(
      at::full({kCount}, -0.25 / 128).to(at::kBFloat16), at::kBFloat16, 0);
  tensor.param = at::ones({kCount}).to(at::kBFloat16);
  tensor.runs = {{0, 0, kCount, 1}};
  UpdateRule plain{OptimizerKind::sgd, {}};
  update(plain, {1, 1}, tensor, 5);
  // The next number after 1 is 1 + 1/128.
  at::Tensor up = tensor.param.to(at::kFloat) == 1 + 1.0 / 128;
  EXPECT_TRUE(
      at::logical_or(up, tensor.param.to(at::kFloat) == 1).all().item<bool>());
  EXPECT_NEAR(up.to(at::kFloat).mean().item<double>(), 0.25, 0.01);

  // Another step, seed or tensor rounds others; the same does not.
  auto repeat = [&](double step, uint64_t seed, uint32_t name) {
    UpdatedTensor again = tensor;
    again.param = at::ones({kCount}).to(at::kBFloat16);
    again.runs[0].tensor = name;
    update(plain, {1, step}, again, seed);
    return at::equal(again.param, tensor.param);
  };
  EXPECT_TRUE(repeat(1, 5, 1));
  EXPECT_FALSE(repeat(2, 5, 1));
  EXPECT_FALSE(repeat(1, 6, 1));
  EXPECT_FALSE(repeat(1, 5, 2));
}

TEST(BlockUpdate, RoundingIsOfTheElementNotOfThePart) {
  constexpr int64_t kCount = 3000, kFirst = 1003;
  auto make = [&](int64_t first, int64_t count) {
    UpdatedTensor tensor = makeTensor(
        at::full({count}, 0.3 / 128).to(at::kBFloat16), at::kBFloat16, 0);
    tensor.param = at::ones({count}).to(at::kBFloat16);
    tensor.runs = {{0, first, count, 1}};
    update({OptimizerKind::sgd, {}}, {1, 4}, tensor, 9);
    return tensor.param;
  };
  at::Tensor whole = make(0, kCount);
  EXPECT_TRUE(at::equal(make(kFirst, kCount - kFirst),
                        whole.narrow(0, kFirst, kCount - kFirst)));
}

TEST(BlockUpdate, NumbersThatAreNoneDoNotSpread) {
  UpdatedTensor tensor =
      makeTensor(makeNumbers(2 * kBlockElements), at::kByte, 2);
  tensor.grad[3] = std::numeric_limits<float>::quiet_NaN();
  update(kAdamW, {1e-2, 1}, tensor, std::nullopt);
  EXPECT_TRUE(std::isnan(tensor.param[3].item<float>()));
  EXPECT_TRUE(std::isnan(tensor.scales[0][0].item<float>()));
  EXPECT_FALSE(at::isnan(tensor.param.narrow(0, kBlockElements, kBlockElements))
                   .any()
                   .item<bool>());
}

} // namespace
