//===- MergeTest.cpp - Adapters in the matrices beside them ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/MergedDelta.h"
#include "runtime/states/MergedStates.h"

#include "support/Error.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

plan::PlanT makePlan(const std::vector<std::string> &names) {
  plan::PlanT plan;
  for (const std::string &name : names) {
    plan.states.push_back(std::make_unique<plan::StateT>());
    plan.states.back()->name = name;
    plan.states.back()->role = name.find("lora_") == std::string::npos
                                   ? plan::Role::frozen
                                   : plan::Role::parameter;
  }
  return plan;
}

void addAdapter(plan::PlanT &plan, uint32_t base, uint32_t down, uint32_t up) {
  plan.adapters.push_back(std::make_unique<plan::AdapterT>());
  plan.adapters.back()->base = base;
  plan.adapters.back()->down = down;
  plan.adapters.back()->up = up;
}

std::vector<std::string> namesOf(const plan::PlanT &plan) {
  std::vector<std::string> names;
  for (const ExportedState &each : listMerged(plan))
    names.insert(names.end(), each.names.begin(), each.names.end());
  return names;
}

std::string refusal(const plan::PlanT &plan) {
  try {
    listMerged(plan);
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::RuntimeUnsupported);
    return error.what();
  }
  return "was not refused";
}

TEST(Merge, LeavesNamesOfTheModelWithoutPeft) {
  plan::PlanT plan = makePlan(
      {"net.base_model.model.fc.base_layer.weight",
       "net.base_model.model.fc.base_layer.bias",
       "net.base_model.model.fc.lora_A.default.weight",
       "net.base_model.model.fc.lora_B.default.weight",
       "net.base_model.model.head.original_module.weight",
       "net.base_model.model.head.modules_to_save.default.weight",
       // Of the model itself.
       "other.base_model.model.weight", "other.original_module.weight"});
  plan.states[5]->role = plan::Role::parameter;
  plan.states[5]->aliases = {"net.base_model.model.embed.weight"};
  addAdapter(plan, 0, 2, 3);
  EXPECT_THAT(namesOf(plan),
              ElementsAre("net.fc.weight", "net.fc.bias", "net.head.weight",
                          "net.embed.weight", "other.base_model.model.weight",
                          "other.original_module.weight"));
  std::vector<ExportedState> states = listMerged(plan);
  EXPECT_EQ(states[0].adapter, plan.adapters[0].get());
  EXPECT_EQ(states[1].adapter, nullptr);
}

TEST(Merge, NeedsNoNamesToFindAdapters) {
  plan::PlanT plan = makePlan({"a", "b", "c", "base_model.model.d"});
  addAdapter(plan, 0, 1, 2);
  EXPECT_THAT(namesOf(plan), ElementsAre("a", "base_model.model.d"));
}

TEST(Merge, RefusesWhatWouldBeLeftOver) {
  plan::PlanT plan =
      makePlan({"fc.base_layer.weight", "fc.lora_A.weight", "fc.lora_B.weight",
                "e.base_layer.weight", "e.lora_embedding_A.default"});
  EXPECT_THAT(refusal(plan), HasSubstr("the artifact has none"));
  addAdapter(plan, 0, 1, 2);
  EXPECT_THAT(
      refusal(plan),
      HasSubstr("'e.lora_embedding_A.default' cannot be merged: it is in "
                "none of the artifact's 1 adapters"));
  plan.states[4]->name = "fc.weight";
  EXPECT_THAT(refusal(plan),
              HasSubstr("both 'fc.base_layer.weight' and 'fc.weight' would be "
                        "called 'fc.weight'"));
}

/// Adds to pieces of `base` of so many elements.
at::Tensor addInPieces(const MergedDelta &delta, at::Tensor base,
                       int64_t piece) {
  at::Tensor all = base.clone().flatten();
  for (int64_t first = 0; first < all.numel(); first += piece)
    delta.addTo(all.narrow(0, first, std::min(piece, all.numel() - first)),
                first);
  return all.view(base.sizes());
}

TEST(Merge, AddsTheSameToPiecesOfAnySize) {
  at::manual_seed(1);
  at::Tensor down = at::randn({3, 7}), up = at::randn({11, 3});
  plan::AdapterT adapter;
  adapter.scale = 0.75;
  at::Tensor delta = 0.75 * at::matmul(up, down);
  for (bool isTurned : {false, true}) {
    adapter.base_is_in_by_out = isTurned;
    MergedDelta merged(adapter, down, up);
    at::Tensor base = isTurned ? at::randn({7, 11}) : at::randn({11, 7});
    at::Tensor want = base + (isTurned ? delta.t() : delta);
    for (int64_t piece : {1, 2, 6, 7, 8, 11, 21, 30, 77})
      EXPECT_TRUE(
          at::allclose(addInPieces(merged, base, piece), want, 1e-6, 1e-6))
          << piece;
  }
}

TEST(Merge, RoundsOnceToTheTypeOfTheBase) {
  at::manual_seed(2);
  at::Tensor down = at::randn({4, 64}), up = at::randn({48, 4});
  plan::AdapterT adapter;
  adapter.scale = 2;
  for (at::ScalarType type : {at::kBFloat16, at::kHalf, at::kDouble}) {
    MergedDelta merged(adapter, down, up.to(at::kBFloat16));
    at::Tensor base = at::randn({48, 64}).to(type);
    at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
    at::Tensor exact =
        base.to(wide) +
        2 * at::matmul(up.to(at::kBFloat16).to(wide), down.to(wide));
    at::Tensor have = addInPieces(merged, base, 1000);
    EXPECT_EQ(have.scalar_type(), type);
    // But for sums whose own rounding puts them on the other side of a middle.
    at::Tensor other = have.to(wide).sub(exact.to(type).to(wide)).ne(0);
    if (type != at::kDouble)
      EXPECT_LT(other.sum().item<int64_t>(), 10);
    EXPECT_TRUE(at::allclose(have.to(wide), exact,
                             type == at::kDouble ? 1e-14 : 4e-3, 1e-12));
  }
}

TEST(Merge, MatricesLargerThanAChunk) {
  at::Tensor down = at::ones({1, 1 << 20}), up = at::arange(3).view({3, 1});
  plan::AdapterT adapter;
  adapter.scale = -1;
  MergedDelta merged(adapter, down, up.to(at::kFloat));
  at::Tensor have = addInPieces(merged, at::zeros({3, 1 << 20}), 3 << 20);
  EXPECT_TRUE(at::equal(have, -up.to(at::kFloat).expand({3, 1 << 20})));
}

TEST(Merge, EachExpertHasItsOwnProduct) {
  at::manual_seed(3);
  // As PEFT: [experts * rank, in] and [out, rank * experts].
  at::Tensor down = at::randn({3 * 2, 5}), up = at::randn({4, 2 * 3});
  plan::AdapterT adapter;
  adapter.scale = 0.5;
  adapter.experts = 3;
  at::Tensor delta = 0.5 * at::einsum("ore,eri->eoi", {up.view({4, 2, 3}),
                                                       down.view({3, 2, 5})});
  for (bool isTurned : {false, true}) {
    adapter.base_is_in_by_out = isTurned;
    MergedDelta merged(adapter, down, up);
    at::Tensor want = isTurned ? delta.transpose(1, 2) : delta;
    for (int64_t piece : {1, 7, 20, 33, 60})
      EXPECT_TRUE(at::allclose(addInPieces(merged, at::zeros_like(want), piece),
                               want, 1e-6, 1e-6))
          << piece;
  }
}

TEST(Merge, BringsEachOutToItsMagnitude) {
  at::manual_seed(4);
  at::Tensor down = at::randn({2, 6}), up = at::randn({5, 2}),
             norms = at::rand({5}) + 0.5;
  plan::AdapterT adapter;
  adapter.scale = 3;
  for (bool isTurned : {false, true}) {
    adapter.base_is_in_by_out = isTurned;
    at::Tensor base = isTurned ? at::randn({6, 5}) : at::randn({5, 6});
    at::Tensor sum = (isTurned ? base.t() : base) + 3 * at::matmul(up, down);
    at::Tensor want = sum * (norms / sum.square().sum(1).sqrt()).unsqueeze(1);
    if (isTurned)
      want = want.t();
    for (int64_t piece : {1, 4, 11, 30}) {
      MergedDelta merged(adapter, down, up, norms);
      at::Tensor all = base.clone().view({-1});
      for (int64_t first = 0; first < all.numel(); first += piece)
        merged.measure(
            all.narrow(0, first, std::min(piece, all.numel() - first)), first);
      EXPECT_TRUE(
          at::allclose(addInPieces(merged, base, piece), want, 1e-5, 1e-6))
          << piece;
    }
  }
}

} // namespace
