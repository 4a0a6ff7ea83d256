//===- VisibleAttentionTest.cpp - Attention where a mask shows keys -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/backends/Backends.h"
#include "runtime/device/Arena.h"
#include "runtime/device/DTypes.h"
#include "runtime/exec/Executor.h"
#include "runtime/exec/HostDevice.h"
#include "test/unit/runtime/SmallPlan.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>

using namespace fsdp;
using namespace fsdp::test;

namespace {

constexpr const char *kForward =
    "aten::_scaled_dot_product_flash_attention_for_cpu";
constexpr double kInf = std::numeric_limits<double>::infinity();

/// at::manual_seed asks for GPUs, which other tests are to do first.
void seed(uint64_t number) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(number);
}

struct Sizes {
  int64_t batch, heads, keyHeads, queries, keys, width;
  std::vector<int64_t> mask;
  plan::DType dtype = plan::DType::f32;
};

/// Forward and backward of attention under a mask, a program of two calls.
class Attention {
public:
  explicit Attention(Sizes sizes) : sizes(std::move(sizes)) { build(); }

  /// Runs it; expects what LibTorch's kernels give for the whole.
  void expectSame(const at::Tensor &mask, double tolerance) {
    at::Tensor q = fill(query), k = fill(key), v = fill(value),
               dOut = fill(gradient), m = read(additive);
    m.copy_(mask.expand_as(m));
    executor->run(0);
    EXPECT_EQ(memory.missedBytes(), 0u);
    auto [o, l] = at::_scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0, false, m, 0.3);
    auto [dq, dk, dv] =
        at::_scaled_dot_product_flash_attention_for_cpu_backward(
            dOut, q, k, v, o, l, 0, false, m, 0.3);
    const at::Tensor expected[] = {o, l, dq, dk, dv};
    for (size_t i = 0; i < results.size(); ++i) {
      at::Tensor found = read(results[i]);
      EXPECT_TRUE(found.allclose(expected[i].to(found.scalar_type()), tolerance,
                                 tolerance, /*equal_nan=*/true))
          << "result " << i << ", off by "
          << (found - expected[i]).abs().max().item<double>();
    }
  }

  /// Whether the outputs of the first queries are numbers though the last key
  /// is none.
  bool leavesOutLastKey(const at::Tensor &mask) {
    fill(query), fill(value), fill(gradient);
    fill(key).select(2, sizes.keys - 1).fill_(kInf - kInf);
    read(additive).copy_(mask);
    executor->run(0);
    at::Tensor some = read(results[0]).narrow(2, 0, 64);
    return !some.isnan().any().item<bool>();
  }

private:
  void build() {
    installPlannedAllocator();
    small.beginProgram("attention");
    std::vector<int64_t> queries = {sizes.batch, sizes.heads, sizes.queries,
                                    sizes.width},
                         keys = {sizes.batch, sizes.keyHeads, sizes.keys,
                                 sizes.width},
                         sums = {sizes.batch, sizes.heads, sizes.queries};
    plan::DType type = sizes.dtype;
    query = small.add(type, queries);
    key = small.add(type, keys);
    value = small.add(type, keys);
    gradient = small.add(type, queries);
    additive = small.add(type, sizes.mask);
    results = {small.add(type, queries), small.add(plan::DType::f32, sums),
               small.add(type, queries), small.add(type, keys),
               small.add(type, keys)};
    using P = SmallPlan;
    small.call(kForward, "", {results[0], results[1]}, P::tensor(query),
               P::tensor(key), P::tensor(value), P::number(0),
               P::boolean(false), P::tensor(additive), P::number(0.3));
    small.call(std::string(kForward) + "_backward", "",
               {results[2], results[3], results[4]}, P::tensor(gradient),
               P::tensor(query), P::tensor(key), P::tensor(value),
               P::tensor(results[0]), P::tensor(results[1]), P::number(0),
               P::boolean(false), P::tensor(additive), P::number(0.3));
    for (int32_t result : results)
      small.give(result);
    arena = std::make_unique<Arena>(small.bytes());
    fabrics = findBackend("fake").connect({});
    transfers = std::make_unique<Transfers>(small.plan, *fabrics[0]);
    device = makeHostDevice(*fabrics[0]);
    executor = std::make_unique<Executor>(RankContext{.plan = small.plan,
                                                      .arenas = *arena,
                                                      .memory = memory,
                                                      .transfers = *transfers,
                                                      .shared = nullptr,
                                                      .rank = 0,
                                                      .device = *device},
                                          *small.plan.programs[0]);
    RankMemory::Current current(memory);
    executor->rehearse();
    scratch = std::make_unique<Arena>(memory.scratchNeeded());
    memory.setScratch(scratch->at(0), memory.scratchNeeded());
  }

  at::Tensor read(int32_t number) {
    const plan::ValueT &planned =
        *small.plan.programs[0]->values[static_cast<size_t>(number)];
    return at::from_blob(arena->at(planned.offset), planned.shape,
                         toScalarType(planned.dtype));
  }
  at::Tensor fill(int32_t number) { return read(number).normal_(); }

  Sizes sizes;
  SmallPlan small;
  int32_t query = 0, key = 0, value = 0, gradient = 0, additive = 0;
  std::vector<int32_t> results;
  std::unique_ptr<Arena> arena, scratch;
  RankMemory memory;
  std::vector<std::unique_ptr<Fabric>> fabrics;
  std::unique_ptr<Transfers> transfers;
  std::unique_ptr<Device> device;
  std::unique_ptr<Executor> executor;
};

at::Tensor hide(const at::Tensor &seen, double hidden = -kInf) {
  return at::zeros_like(seen, at::kFloat)
      .masked_fill(seen.logical_not(), hidden);
}

/// Causal within documents, which begin by chance.
at::Tensor documents(int64_t batch, int64_t length) {
  at::Tensor at = at::arange(length),
             of = (at::rand({batch, length}) < 0.01).cumsum(-1);
  return ((of.unsqueeze(1) == of.unsqueeze(2)) &
          (at.unsqueeze(0) <= at.unsqueeze(1)))
      .unsqueeze(1);
}

TEST(VisibleAttention, DocumentsAreAsInTheWholeCall) {
  seed(1);
  Attention attention({3, 4, 2, 520, 520, 16, {3, 1, 520, 520}});
  for (int step = 0; step < 4; ++step)
    attention.expectSame(hide(documents(3, 520)), 2e-5);
  // A mask that hides nothing, and the same in all entries.
  attention.expectSame(at::randn({520, 520}), 2e-5);
  attention.expectSame(hide(documents(1, 520)), 2e-5);
}

TEST(VisibleAttention, PaddingAndWhatSeesNothingAreAsInTheWholeCall) {
  seed(2);
  at::Tensor seen = at::ones({2, 1, 300, 300}, at::kBool).tril();
  seen[0].narrow(-1, 0, 200).fill_(false); // the first 200 queries see nothing
  seen[1].narrow(-1, 100, 200).fill_(false);
  Attention attention({2, 2, 2, 300, 300, 8, {2, 1, 300, 300}});
  attention.expectSame(hide(seen), 2e-5);
  attention.expectSame(hide(seen, std::numeric_limits<float>::lowest()), 2e-5);
  // Interleaved: no query's keys are one range.
  at::Tensor of = at::randint(3, {2, 300});
  attention.expectSame(hide((of.unsqueeze(1) == of.unsqueeze(2)).unsqueeze(1)),
                       2e-5);
}

TEST(VisibleAttention, KeysAreMoreOrFewerThanQueries) {
  seed(3);
  for (auto [queries, keys] : {std::pair(130, 700), std::pair(700, 130)}) {
    Attention attention({1, 2, 1, queries, keys, 8, {queries, keys}});
    at::Tensor first = at::arange(queries).mul(keys).div(queries, "floor");
    at::Tensor key = at::arange(keys);
    attention.expectSame(
        hide((key >= first.unsqueeze(1)) & (key < first.unsqueeze(1) + 40)),
        2e-5);
  }
}

TEST(VisibleAttention, AMaskOfEachHeadIsAsInTheWholeCall) {
  seed(4);
  Attention attention({2, 3, 3, 256, 256, 8, {2, 3, 256, 256}});
  at::Tensor bias = at::randn({2, 3, 256, 256});
  attention.expectSame(bias + hide(documents(2, 256)), 2e-5);
}

TEST(VisibleAttention, KeysThatNobodySeesAreNotRead) {
  Attention attention({1, 2, 2, 256, 256, 8, {256, 256}});
  at::Tensor seen = at::ones({256, 256}, at::kBool).tril();
  EXPECT_TRUE(attention.leavesOutLastKey(hide(seen)));
  EXPECT_FALSE(attention.leavesOutLastKey(at::zeros({256, 256})));
}

TEST(VisibleAttention, LowPrecisionIsAsInTheWholeCall) {
  seed(5);
  for (plan::DType dtype : {plan::DType::bf16, plan::DType::f16}) {
    Attention attention({2, 2, 2, 520, 520, 16, {2, 1, 520, 520}, dtype});
    attention.expectSame(hide(documents(2, 520)), 3e-2);
    attention.expectSame(hide(documents(2, 520),
                              dtype == plan::DType::f16 ? -65504 : -3.3895e38),
                         3e-2);
  }
}

} // namespace
