//===- NcclRehearsalTest.cpp - Kernels that are there before transfers ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "NcclHarness.h"

#include <gmock/gmock.h>

using namespace fsdp;
using namespace fsdp::test;
using plan::DType;
using plan::Reduction;

namespace {

constexpr TransferLabel kReduce = {"reduce_scatter", "layers.0", 3};

using NcclRehearsal = NcclTest;

TEST_F(NcclRehearsal, DivisionsAreLaunchedBeforeAnyTransferRuns) {
  connect(0, 2);
  auto communicator = world("reduce");
  alignas(16) float full[8] = {}, shard[4] = {};
  ReduceMember member{full, shard, 4, DType::f32};
  std::span<const ReduceMember> members{&member, 1};
  communicator->rehearse({members, {Reduction::sum, 1, 2}, kReduce});
  // Where kernels run, and alone.
  ASSERT_EQ(works("divide").size(), 1u);
  EXPECT_EQ(streams->all()[works("divide")[0]].stream, streams->compute());
  EXPECT_TRUE(works("ncclReduceScatter").empty());
  // Nothing where nothing will be divided.
  communicator->rehearse({members, Reduction::sum, kReduce});
  AllReduceMember all{full, 8, DType::f32};
  std::span<const AllReduceMember> sums{&all, 1};
  communicator->rehearse({sums, Reduction::sum, kReduce});
  EXPECT_EQ(works("divide").size(), 1u);
  communicator->rehearse({sums, {Reduction::sum, 1, 4}, kReduce});
  EXPECT_EQ(works("divide").size(), 2u);
}

} // namespace
