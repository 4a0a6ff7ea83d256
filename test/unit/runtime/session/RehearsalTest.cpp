//===- RehearsalTest.cpp - What is done before the first step -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Reader.h"
#include "runtime/comm/local/Local.h"
#include "runtime/exec/Executor.h"
#include "runtime/exec/HostDevice.h"
#include "runtime/session/Session.h"
#include "test/unit/runtime/SmallPlan.h"
#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/TinyModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

using namespace fsdp;
using namespace fsdp::test;

namespace {

using Notes = std::vector<std::string>;

class NotedMemory final : public HostReachableMemory {
public:
  explicit NotedMemory(Notes &notes) : notes(notes) {}
  char *map(uint64_t bytes) override {
    notes.push_back("map");
    return hostMemory().map(bytes);
  }
  void unmap(char *begin, uint64_t bytes) noexcept override {
    hostMemory().unmap(begin, bytes);
  }
  void clear(char *begin, uint64_t bytes) override {
    hostMemory().clear(begin, bytes);
  }

private:
  Notes &notes;
};

/// The host, and what is asked of it.
class NotedDevice final : public Device {
public:
  NotedDevice(Fabric &fabric, Notes &notes)
      : inner(makeHostDevice(fabric)), noted(notes), notes(notes) {}

  c10::Device torch() const override { return inner->torch(); }
  Memory &memory() override { return noted; }
  std::unique_ptr<Copies> makeCopies() override { return inner->makeCopies(); }
  Fabric &fabric() override { return inner->fabric(); }
  void rehearse(Executor &executor) override {
    notes.push_back("rehearse");
    inner->rehearse(executor);
  }
  void run(Executor &executor, uint64_t step, ProfileRecorder *to) override {
    inner->run(executor, step, to);
  }
  void settle() override { notes.push_back("settle"); }
  std::unique_ptr<Instruction> prepareDraw(Preparation &p,
                                           const plan::DrawT &op) override {
    return inner->prepareDraw(p, op);
  }
  double readNumber(const at::Tensor &tensor) override {
    return inner->readNumber(tensor);
  }

private:
  const std::unique_ptr<Device> inner;
  NotedMemory noted;
  Notes &notes;
};

TEST(Rehearsal, WhatItTookIsFreeBeforeTheScratchRegionIsTaken) {
  TemporaryFolder folder;
  LaunchOptions options = TinyModel().writeForThreads(folder.path());
  PlanFile plan = PlanFile::read(options.artifact);
  auto fabrics = makeLocalFabrics(1, std::chrono::seconds(30));
  Notes notes;
  SessionOptions session = options.session;
  session.artifactFolder = folder.path();
  session.isInProcess = true;
  session.makeDevice = [&](Fabric &fabric) {
    return std::make_unique<NotedDevice>(fabric, notes);
  };
  Session own(plan, *fabrics[0], session);
  EXPECT_THAT(notes, testing::ElementsAre("map", "rehearse", "settle", "map"));
}

TEST(Rehearsal, BucketsArePackedBeforeTransfersRun) {
  SmallPlan small;
  small.beginProgram("pack");
  plan::PackTensorsT pack;
  int32_t input = small.add(plan::DType::f32, {4});
  int32_t output = small.add(plan::DType::f32, {6});
  pack.inputs = {static_cast<uint32_t>(input)};
  pack.offsets = {1};
  pack.output = static_cast<uint32_t>(output);
  small.instruction(std::move(pack));
  Arena arena(small.bytes());
  arena.fill(small.offsetOf(input), 0x11, 16);
  arena.fill(small.offsetOf(output), 0x22, 24);
  RankMemory memory;
  auto fabrics = makeLocalFabrics(1, std::chrono::seconds(30));
  Transfers transfers(small.plan, *fabrics[0]);
  auto device = makeHostDevice(*fabrics[0]);
  Executor executor({.plan = small.plan,
                     .arenas = arena,
                     .memory = memory,
                     .transfers = transfers,
                     .shared = nullptr,
                     .rank = 0,
                     .device = *device},
                    *small.plan.programs[0]);
  executor.rehearse();
  std::array<unsigned char, 24> packed;
  arena.read(small.offsetOf(output), packed.data(), packed.size());
  EXPECT_EQ(std::ranges::count(packed, 0x11), 16);
  EXPECT_EQ(std::ranges::count(packed, 0), 8);
}

} // namespace
