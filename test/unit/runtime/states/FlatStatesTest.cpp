//===- FlatStatesTest.cpp - First values of a flat state ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/TinyModel.h"

#include "runtime/states/Parts.h"
#include "runtime/states/States.h"
#include "support/ZipDirectory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

using namespace fsdp;

namespace {

/// The weight, 15 elements, from the third on in a flat state of 18.
plan::PlanT flatPlan(const test::TinyModel &model) {
  plan::PlanT plan = model.makePlan();
  plan::StateT &weight = *plan.states[0];
  weight.shard_dim = -1;
  weight.bytes = 0;
  weight.flat = static_cast<int32_t>(plan.states.size());
  weight.flat_offset = 2;
  auto flat = std::make_unique<plan::StateT>();
  flat->name = "net/flat";
  flat->shape = {18};
  flat->layout = plan::Layout::flat;
  flat->shard_dim = 0;
  flat->bytes = 18 * sizeof(float) / model.worldSize;
  flat->offset = plan.memory->peak;
  plan.memory->peak += 128;
  plan.states.push_back(std::move(flat));
  return plan;
}

class FlatStates : public testing::TestWithParam<std::tuple<int, bool>> {};

/// Parts begin and end within rows, which the file may store as columns.
TEST_P(FlatStates, AreReadByElements) {
  test::TinyModel model;
  model.worldSize = std::get<0>(GetParam());
  model.isSourceStrided = std::get<1>(GetParam());
  test::TemporaryFolder folder;
  model.write(folder.path());
  plan::PlanT plan = flatPlan(model);
  plan.model->directory =
      ZipDirectory::read(folder.path() + "/model.pt2").directoryHash();
  const plan::StateT &flat = *plan.states.back();
  std::vector<float> expected(18, 0), weight = test::TinyModel::initialWeight();
  std::copy(weight.begin(), weight.end(), expected.begin() + 2);
  ModelFile file(*plan.model, folder.path(), "");
  std::vector<float> found;
  for (int rank = 0; rank < model.worldSize; ++rank) {
    Arena arena(plan.memory->peak);
    std::memset(arena.at(flat.offset), 0xff, flat.bytes);
    loadStates(plan, rank, arena, &file, nullptr);
    const auto *part = reinterpret_cast<const float *>(arena.at(flat.offset));
    found.insert(found.end(), part, part + flat.bytes / sizeof(float));
  }
  EXPECT_THAT(found, testing::ElementsAreArray(expected));
}

INSTANTIATE_TEST_SUITE_P(All, FlatStates,
                         testing::Combine(testing::Values(1, 2, 3, 6, 9, 18),
                                          testing::Bool()));

TEST(Overlap, IsWhatARangeHasOfAMember) {
  plan::StateT member;
  member.shape = {2, 3};
  member.flat_offset = 4;
  auto expect = [&](uint64_t first, uint64_t count, Overlap want) {
    Overlap found = overlapOf(member, first, count);
    EXPECT_EQ(found.first, want.first);
    EXPECT_EQ(found.count, want.count);
    EXPECT_EQ(found.at, want.at);
  };
  expect(0, 20, {0, 6, 4});
  expect(5, 2, {1, 2, 0});
  expect(3, 2, {0, 1, 1});
  expect(9, 5, {5, 1, 0});
  expect(0, 4, {0, 0, 0});
  expect(10, 4, {0, 0, 0});
}

} // namespace
