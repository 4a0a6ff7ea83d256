//===- SharedStatesTest.cpp - Parameters that need no gathering -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/SharedStates.h"
#include "runtime/comm/fake/Fake.h"
#include "runtime/comm/local/Local.h"
#include "runtime/exec/Instruction.h"
#include "support/Error.h"
#include "test/unit/runtime/TinyModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;
using namespace std::chrono_literals;
using plan::Body;
using testing::HasSubstr;

namespace {

plan::PlanT makePlan(int64_t in = 16) {
  TinyModel model;
  model.worldSize = 2;
  model.in = in;
  return model.makePlan();
}

auto find(plan::ProgramT &program, Body kind) {
  return std::ranges::find(program.instructions, kind,
                           [](const auto &each) { return each->body.type; });
}

uint32_t indexOf(plan::ProgramT &program, Body kind) {
  return static_cast<uint32_t>(find(program, kind) -
                               program.instructions.begin());
}

uint32_t gatheredValue(plan::ProgramT &program) {
  return (*find(program, Body::Transfer))->body.AsTransfer()->outputs[0];
}

//===----------------------------------------------------------------------===//
// What can be shared
//===----------------------------------------------------------------------===//

TEST(Sharing, IsOfParametersThatAreGatheredAndReadBeforeTheyAreWritten) {
  plan::PlanT plan = makePlan();
  plan::ProgramT &program = *plan.programs[0];
  Sharing sharing(plan);
  EXPECT_EQ(std::ranges::count(sharing.states, true), 1);
  EXPECT_TRUE(sharing.states[0]);
  const SharedReads &reads = sharing.programs.at(&program);
  EXPECT_EQ(reads.gathered[gatheredValue(program)], 0);
  EXPECT_EQ(std::ranges::count(reads.gathered, 0), 1);
  // The transposed view is read by the matmul behind it.
  auto call = static_cast<int64_t>(indexOf(program, Body::Call));
  ASSERT_EQ(reads.writes.size(), 1u);
  EXPECT_EQ(reads.writes[0].lastRead, call + 1);
  EXPECT_EQ(reads.writes[0].index, indexOf(program, Body::Update));
}

void expectNothingShared(const plan::PlanT &plan) {
  Sharing sharing(plan);
  EXPECT_EQ(std::ranges::count(sharing.states, true), 0);
  const SharedReads &reads = sharing.programs.at(plan.programs[0].get());
  EXPECT_EQ(std::ranges::count(reads.gathered, -1),
            static_cast<int64_t>(reads.gathered.size()));
  EXPECT_TRUE(reads.writes.empty());
}

TEST(Sharing, IsNotOfShardsThatEndWithinACacheLine) {
  expectNothingShared(makePlan(3));
}

TEST(Sharing, IsNotOfStatesThatAreWrittenBeforeTheLastRead) {
  plan::PlanT plan = makePlan();
  plan::ProgramT &program = *plan.programs[0];
  std::rotate(find(program, Body::Wait), find(program, Body::Update),
              program.instructions.end());
  expectNothingShared(plan);
}

TEST(Sharing, IsNotOfParametersWhoseGatheredFormIsChanged) {
  plan::PlanT plan = makePlan();
  plan::ProgramT &program = *plan.programs[0];
  (*find(program, Body::ZeroPadding))->body.AsZeroPadding()->value =
      gatheredValue(program);
  expectNothingShared(plan);
}

TEST(Sharing, IsOfParametersThatADrawReads) {
  plan::PlanT plan = makePlan();
  plan::ProgramT &program = *plan.programs[0];
  plan::DrawT draw;
  draw.given = {gatheredValue(program)};
  auto place = static_cast<uint32_t>(program.values.size());
  program.values.push_back(std::make_unique<plan::ValueT>());
  draw.random = draw.output = place;
  uint32_t at = indexOf(program, Body::Update) - 1;
  program.instructions[at]->body.Set(std::move(draw));
  Sharing sharing(plan);
  EXPECT_TRUE(sharing.states[0]);
  ASSERT_EQ(sharing.programs.at(&program).writes.size(), 1u);
  EXPECT_EQ(sharing.programs.at(&program).writes[0].lastRead, at);
}

/// As where a bucket is updated in backward, while others are still to be read.
TEST(Sharing, EachWriteWaitsForTheReadsOfWhatItWrites) {
  plan::PlanT plan = makePlan();
  plan::ProgramT &program = *plan.programs[0];
  uint32_t adam = indexOf(program, Body::Update);
  program.instructions.resize(adam + 1);
  // A second parameter, which is gathered, read and written behind the update
  // of the first.
  auto state = static_cast<uint32_t>(plan.states.size());
  plan.states.push_back(std::make_unique<plan::StateT>(*plan.states[0]));
  const plan::TransferT &first =
      *(*find(program, Body::Transfer))->body.AsTransfer();
  auto add = [&](uint32_t like) {
    program.values.push_back(
        std::make_unique<plan::ValueT>(*program.values[like]));
    return static_cast<uint32_t>(program.values.size() - 1);
  };
  plan::TransferT gather = first;
  gather.inputs = {add(first.inputs[0])};
  program.values.back()->state = state;
  gather.outputs = {add(first.outputs[0])};
  plan::DrawT draw;
  draw.given = gather.outputs;
  draw.random = draw.output = add(first.outputs[0]);
  plan::CopyT copy;
  copy.from = draw.output;
  copy.to = gather.inputs[0];
  auto append = [&](auto body) {
    program.instructions.push_back(std::make_unique<plan::InstructionT>());
    program.instructions.back()->body.Set(std::move(body));
  };
  append(gather);
  append(draw);
  append(copy);

  Sharing sharing(plan);
  EXPECT_TRUE(sharing.states[0]);
  EXPECT_TRUE(sharing.states[state]);
  const std::vector<SharedWrite> &writes = sharing.programs.at(&program).writes;
  ASSERT_EQ(writes.size(), 2u);
  EXPECT_EQ(writes[0].lastRead, indexOf(program, Body::Call) + 1);
  EXPECT_EQ(writes[0].index, adam);
  EXPECT_EQ(writes[1].lastRead, adam + 2);
  EXPECT_EQ(writes[1].index, adam + 3);
}

TEST(Sharing, IsNotOfParametersThatAKernelChangesInPlace) {
  plan::PlanT plan = makePlan();
  plan::ProgramT &program = *plan.programs[0];
  const plan::CallT &call =
      *program.instructions[indexOf(program, Body::Call) + 1]->body.AsCall();
  plan.operators[call.op]->name = "aten::add_";
  plan.operators[call.op]->overload = "Tensor";
  expectNothingShared(plan);
}

TEST(Sharing, IsNotOfParametersThatAProgramReturnsGathered) {
  plan::PlanT plan = makePlan();
  plan::ProgramT &program = *plan.programs[0];
  program.results[0]->value = gatheredValue(program);
  expectNothingShared(plan);
}

TEST(Sharing, IsNotOfIntegers) {
  plan::PlanT plan = makePlan();
  plan.states[0]->dtype = plan::DType::i32;
  expectNothingShared(plan);
}

//===----------------------------------------------------------------------===//
// Sharing
//===----------------------------------------------------------------------===//

struct Rank {
  Rank(const plan::PlanT &plan, Fabric &fabric)
      : arena(plan.memory->peak), states(plan, fabric, arena) {}

  Arena arena;
  SharedStates states;
};

TEST(SharedStates, LieSideBySideAndAreTheGatheredParameter) {
  plan::PlanT plan = makePlan();
  const plan::ProgramT &program = *plan.programs[0];
  auto fabrics = makeLocalFabrics(2, 10s);
  Rank first(plan, *fabrics[0]), second(plan, *fabrics[1]);
  uint32_t full = gatheredValue(*plan.programs[0]);
  const plan::StateT &weight = *plan.states[0];
  char *address = first.states.addressOf(program, full);
  EXPECT_EQ(second.states.addressOf(program, full), address);
  EXPECT_EQ(first.arena.at(weight.offset), address);
  EXPECT_EQ(second.arena.at(weight.offset), address + weight.bytes);
  EXPECT_EQ(second.arena.at(weight.offset + 8), address + weight.bytes + 8);
  // What lies behind it did not move.
  EXPECT_TRUE(
      first.arena.contains(first.arena.at(weight.offset + weight.bytes)));
  EXPECT_FALSE(first.arena.contains(address));
  EXPECT_EQ(first.states.addressOf(program, full + 1), nullptr);
}

/// A second session on the same fabric has its own, also while a peer still
/// holds the first one's.
TEST(SharedStates, AreNotThoseOfAnEarlierSession) {
  plan::PlanT plan = makePlan();
  auto fabrics = makeLocalFabrics(2, 10s);
  Rank first(plan, *fabrics[0]), second(plan, *fabrics[1]);
  Rank again(plan, *fabrics[0]);
  EXPECT_NE(again.arena.at(plan.states[0]->offset),
            first.arena.at(plan.states[0]->offset));
}

TEST(SharedStates, StayApartWhereRanksAreProcesses) {
  plan::PlanT plan = makePlan();
  FakeFabric fabric(0, 2);
  Rank rank(plan, fabric);
  const plan::ProgramT &program = *plan.programs[0];
  EXPECT_EQ(rank.states.addressOf(program, gatheredValue(*plan.programs[0])),
            nullptr);
  EXPECT_TRUE(rank.arena.contains(rank.arena.at(plan.states[0]->offset)));
  EXPECT_EQ(rank.states.guard(program, indexOf(*plan.programs[0], Body::Update),
                              nullptr),
            nullptr);
}

/// What the rank runs behind its last read and in front of its first write.
struct Guards {
  Guards(Rank &rank, const plan::PlanT &plan) {
    const plan::ProgramT &program = *plan.programs[0];
    SharedWrite write = Sharing(plan).programs.at(&program).writes.at(0);
    behind = rank.states.guard(program, static_cast<uint32_t>(write.lastRead),
                               nullptr);
    before =
        rank.states.guard(program, static_cast<uint32_t>(write.index), nullptr);
  }

  std::unique_ptr<Instruction> behind, before;
};

TEST(SharedStates, AreWrittenOnlyWhenAllPeersHaveReadThem) {
  plan::PlanT plan = makePlan();
  auto fabrics = makeLocalFabrics(2, 10s);
  Rank first(plan, *fabrics[0]), second(plan, *fabrics[1]);
  Guards mine(first, plan), theirs(second, plan);
  StepState state;
  for (int step = 0; step < 3; ++step) {
    mine.behind->run(state);
    auto written = std::async(std::launch::async, [&] {
      StepState state;
      mine.before->run(state);
    });
    EXPECT_EQ(written.wait_for(50ms), std::future_status::timeout);
    theirs.behind->run(state);
    written.get();
    theirs.before->run(state);
  }
}

TEST(SharedStates, APeerThatNeverFinishesReadingIsAnError) {
  plan::PlanT plan = makePlan();
  auto fabrics = makeLocalFabrics(2, 50ms);
  Rank first(plan, *fabrics[0]), second(plan, *fabrics[1]);
  Guards mine(first, plan);
  StepState state;
  state.step = 7;
  mine.behind->run(state);
  try {
    mine.before->run(state);
    FAIL() << "no error";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::DeadlinePassed);
    EXPECT_THAT(error.what(), HasSubstr("rank 0"));
    EXPECT_THAT(error.what(), HasSubstr("in step 7"));
    EXPECT_THAT(error.what(), HasSubstr("rank 1"));
  }
}

} // namespace
