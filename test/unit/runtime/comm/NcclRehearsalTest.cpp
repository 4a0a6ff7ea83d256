//===- NcclRehearsalTest.cpp - Kernels that are there before transfers ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "NcclHarness.h"

#include <gmock/gmock.h>

using namespace fsdp;
using namespace fsdp::test;
using plan::DType;
using plan::Reduction;

namespace {

using NcclRehearsal = NcclTest;

TEST_F(NcclRehearsal, DivisionsAreLaunchedBeforeAnyTransferRuns) {
  connect(0, 2);
  auto communicator = world("reduce");
  alignas(16) float full[8] = {}, shard[4] = {};
  Member member{full, shard, 4, DType::f32};
  std::span<const Member> members{&member, 1};
  communicator->rehearse({kReduce, members, {Reduction::sum, 1, 2}});
  // Where kernels run, and alone.
  ASSERT_EQ(works("divide").size(), 1u);
  EXPECT_EQ(streams->all()[works("divide")[0]].stream, streams->compute());
  EXPECT_TRUE(works("ncclReduceScatter").empty());
  // Nothing where nothing will be divided.
  communicator->rehearse({kReduce, members, Reduction::sum});
  Member all{full, full, 8, DType::f32};
  std::span<const Member> sums{&all, 1};
  communicator->rehearse({kAllReduce, sums, Reduction::sum});
  EXPECT_EQ(works("divide").size(), 1u);
  communicator->rehearse({kAllReduce, sums, {Reduction::sum, 1, 4}});
  EXPECT_EQ(works("divide").size(), 2u);
}

} // namespace
