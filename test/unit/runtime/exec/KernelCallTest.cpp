//===- KernelCallTest.cpp - Calls of LibTorch's operators -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/backends/Backends.h"
#include "runtime/device/Arena.h"
#include "runtime/device/PlannedAllocator.h"
#include "runtime/exec/Device.h"
#include "runtime/exec/Executor.h"
#include "runtime/exec/HostDevice.h"
#include "support/Error.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

using namespace fsdp;

namespace {

constexpr int64_t kElements = 16;
constexpr uint64_t kRoom = 1024;

/// As the fused attention operators of GPUs, whose lengths stand between
/// tensors.
std::tuple<at::Tensor, int64_t, at::Tensor> withLength(const at::Tensor &x) {
  return {x.add(1), x.numel(), x.mul(2)};
}

/// As a device's allocator that has nothing left.
at::Tensor takeTooMuch(const at::Tensor &) {
  TORCH_CHECK_WITH(OutOfMemoryError, false, "nothing is left.");
}

/// As LibTorch 2.11's _unsafe_masked_index: the copy of a list is the list.
at::Tensor writeIntoList(const c10::List<std::optional<at::Tensor>> &list) {
  c10::List<std::optional<at::Tensor>> same = list;
  at::Tensor first = *list.get(0);
  same.set(0, at::zeros_like(first));
  return first.add(1);
}

/// As the backward of fused attention, which takes a mask as a tensor that need
/// not be one.
at::Tensor addIfThere(const at::Tensor &x, const at::Tensor &more) {
  return more.defined() ? x.add(more) : x.add(1);
}

/// As fused attention, which returns the state of LibTorch's generator from the
/// host's memory, and in a capture from the device's.
bool isInCapture = false;
std::tuple<at::Tensor, at::Tensor> withSeed(const at::Tensor &x) {
  static const at::Tensor elsewhere = at::zeros({}, at::kLong);
  at::Tensor seed = isInCapture ? at::empty({}, at::kLong) : elsewhere;
  return {x.add(1), seed};
}

/// As a kernel for whose temporaries the device has nothing left.
struct Borrowed {
  bool keeps = false;
  char *begin = nullptr;
} borrowed;
at::Tensor borrowTemporary(const at::Tensor &x) {
  constexpr size_t kBytes = 300;
  RankMemory *memory = RankMemory::current(RankMemory::Kind::host);
  auto *taken = static_cast<char *>(memory->borrow(kBytes));
  if (!taken)
    return x.add(1); // not in the rehearsal
  memory->noteElsewhere(taken, kBytes, kBytes);
  std::memset(taken, 0xff, kBytes);
  at::Tensor sum = x.add(1);
  if (!borrowed.keeps)
    memory->noteReturn(taken);
  borrowed.begin = taken;
  return sum;
}

TORCH_LIBRARY_FRAGMENT(fsdp_test, m) {
  m.def("with_seed(Tensor x) -> (Tensor, Tensor)");
  m.impl("with_seed", c10::DispatchKey::CPU, withSeed);
  m.def("borrow_temporary(Tensor x) -> Tensor");
  m.impl("borrow_temporary", c10::DispatchKey::CPU, borrowTemporary);
  m.def("add_if_there(Tensor x, Tensor more) -> Tensor");
  m.impl("add_if_there", c10::DispatchKey::CPU, addIfThere);
  m.def("write_into_list(Tensor?[] x) -> Tensor");
  m.impl("write_into_list", c10::DispatchKey::CPU, writeIntoList);
  m.def("with_length(Tensor x) -> (Tensor, int, Tensor)");
  m.impl("with_length", c10::DispatchKey::CPU, withLength);
  m.def("too_much(Tensor x) -> Tensor");
  m.impl("too_much", c10::DispatchKey::CPU, takeTooMuch);
}

/// The program gives the value to somebody.
void addResult(plan::ProgramT &program, int32_t value) {
  auto binding = std::make_unique<plan::BindingT>();
  binding->value = static_cast<uint32_t>(value);
  program.results.push_back(std::move(binding));
}

/// One call of `op` on the first value, each of which has a place of its own.
plan::PlanT build(const char *op, std::vector<int32_t> results,
                  plan::ArgKind kind) {
  plan::PlanT plan;
  plan.operators.push_back(std::make_unique<plan::OperatorT>());
  plan.operators[0]->name = op;
  plan.programs.push_back(std::make_unique<plan::ProgramT>());
  plan::ProgramT &program = *plan.programs[0];
  for (uint64_t slot = 0; slot <= results.size(); ++slot) {
    auto value = std::make_unique<plan::ValueT>();
    value->shape = {kElements};
    value->offset = slot * kRoom;
    value->bytes = kElements * sizeof(float);
    program.values.push_back(std::move(value));
  }
  plan::CallT call;
  call.args.push_back(std::make_unique<plan::ArgT>());
  call.args[0]->kind = kind;
  call.args[0]->values = {0};
  for (int32_t result : results)
    addResult(program, result);
  call.results = std::move(results);
  program.instructions.push_back(std::make_unique<plan::InstructionT>());
  program.instructions[0]->body.Set(std::move(call));
  return plan;
}

/// One that runs such a program, with room for three values.
struct Rank {
  explicit Rank(const char *op, std::vector<int32_t> results,
                plan::ArgKind kind = plan::ArgKind::tensor)
      : Rank(build(op, std::move(results), kind)) {}
  explicit Rank(plan::PlanT given) : plan(std::move(given)) {}

  plan::PlanT plan;
  Arena arena{4 * kRoom};
  RankMemory memory;
  std::vector<std::unique_ptr<Fabric>> fabrics =
      findBackend("fake").connect({});
  Transfers transfers{plan, *fabrics[0]};
  std::unique_ptr<Device> device = makeHostDevice(*fabrics[0]);
  Executor executor{{.plan = plan,
                     .arenas = arena,
                     .memory = memory,
                     .transfers = transfers,
                     .shared = nullptr,
                     .rank = 0,
                     .device = *device},
                    *plan.programs[0]};
};

TEST(KernelCall, NumbersAmongTheReturnsHaveNoPlace) {
  Rank rank("fsdp_test::with_length", {1, 2});
  std::array<float, kElements> given, more, twice;
  for (size_t i = 0; i < given.size(); ++i)
    given[i] = static_cast<float>(i);
  rank.arena.write(0, given.data(), sizeof(given));
  for (uint64_t step = 0; step < 2; ++step)
    rank.executor.run(step);
  rank.arena.read(kRoom, more.data(), sizeof(more));
  rank.arena.read(2 * kRoom, twice.data(), sizeof(twice));
  for (size_t i = 0; i < given.size(); ++i) {
    EXPECT_EQ(more[i], given[i] + 1);
    EXPECT_EQ(twice[i], given[i] * 2);
  }
}

/// A device out of the host's reach, for programs that are only prepared.
class OtherDevice final : public Device {
public:
  explicit OtherDevice(Fabric &fabric) : host(makeHostDevice(fabric)) {}
  c10::Device torch() const override { return c10::Device(c10::kMeta); }
  Memory &memory() override { return host->memory(); }
  std::unique_ptr<Copies> makeCopies() override { return host->makeCopies(); }
  Fabric &fabric() override { return host->fabric(); }
  void rehearse(Executor &) override {}
  void run(Executor &, uint64_t, ProfileRecorder *) override {}
  std::unique_ptr<Instruction> prepareDraw(Preparation &,
                                           const plan::DrawT &) override {
    return nullptr;
  }
  double readNumber(const at::Tensor &) override { return 0; }

private:
  const std::unique_ptr<Device> host;
};

TEST(KernelCall, CallsThatSyncNeedTheHostOfADevice) {
  for (bool syncs : {false, true}) {
    plan::PlanT plan =
        build("fsdp_test::with_length", {1, 2}, plan::ArgKind::tensor);
    plan.programs[0]->instructions[0]->body.AsCall()->syncs = syncs;
    plan.programs[0]->instructions[0]->at = 0;
    plan.locations = {"layers.3 (model.py:12)"};
    Rank rank(std::move(plan));
    EXPECT_EQ(rank.executor.needsHost(), "");
    OtherDevice device(*rank.fabrics[0]);
    Executor executor({.plan = rank.plan,
                       .arenas = rank.arena,
                       .memory = rank.memory,
                       .transfers = rank.transfers,
                       .shared = nullptr,
                       .rank = 0,
                       .device = device},
                      *rank.plan.programs[0]);
    EXPECT_EQ(executor.needsHost(),
              syncs ? "the host takes part in fsdp_test::with_length of "
                      "layers.3 (model.py:12)"
                    : "");
  }
}

TEST(KernelCall, OperatorsThatLibTorchLacksAreNamed) {
  try {
    Rank rank("fsdp_test::absent", {1});
    FAIL() << "was not refused";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::KernelMissing);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("fsdp_test::absent"));
  }
}

/// Adds an operand, or an integer if `shape` is null.
void addOperand(plan::PlanT &plan, plan::CallT &call, plan::DType dtype,
                std::vector<int64_t> shape) {
  plan::ProgramT &program = *plan.programs[0];
  auto value = std::make_unique<plan::ValueT>();
  value->dtype = dtype;
  value->shape = std::move(shape);
  value->offset = program.values.size() * kRoom;
  value->bytes = kRoom;
  call.args.push_back(std::make_unique<plan::ArgT>());
  call.args.back()->kind = plan::ArgKind::tensor;
  call.args.back()->values = {static_cast<int32_t>(program.values.size())};
  program.values.push_back(std::move(value));
}

void addIntegers(plan::CallT &call, plan::ArgKind kind,
                 std::vector<int64_t> integers) {
  call.args.push_back(std::make_unique<plan::ArgT>());
  call.args.back()->kind = kind;
  call.args.back()->ints = std::move(integers);
}

/// The backward of a maximum over windows of 2 x 2 in an image of 4 x 4.
plan::PlanT buildPooling() {
  using plan::ArgKind;
  plan::PlanT plan;
  plan.operators.push_back(std::make_unique<plan::OperatorT>());
  plan.operators[0]->name = "aten::max_pool2d_with_indices_backward";
  plan.programs.push_back(std::make_unique<plan::ProgramT>());
  plan::CallT call;
  addOperand(plan, call, plan::DType::f32, {1, 1, 2, 2});
  addOperand(plan, call, plan::DType::f32, {1, 1, 4, 4});
  addIntegers(call, ArgKind::integers, {2, 2});
  addIntegers(call, ArgKind::integers, {2, 2});
  addIntegers(call, ArgKind::integers, {0, 0});
  addIntegers(call, ArgKind::integers, {1, 1});
  addIntegers(call, ArgKind::boolean, {0});
  addOperand(plan, call, plan::DType::i64, {1, 1, 2, 2});
  plan::CallT result;
  addOperand(plan, result, plan::DType::f32, {1, 1, 4, 4});
  call.results = result.args[0]->values;
  addResult(*plan.programs[0], call.results[0]);
  plan.programs[0]->instructions.push_back(
      std::make_unique<plan::InstructionT>());
  plan.programs[0]->instructions[0]->body.Set(std::move(call));
  return plan;
}

TEST(KernelCall, IndicesThatAKernelTrustsAreInRange) {
  Rank rank(buildPooling());
  const std::array<float, 4> gradient{1, 2, 3, 4};
  rank.arena.write(0, gradient.data(), sizeof(gradient));
  std::array<int64_t, 4> places{0, 3, 12, 15};
  rank.arena.write(2 * kRoom, places.data(), sizeof(places));
  rank.executor.run(0);
  std::array<float, 16> got;
  rank.arena.read(3 * kRoom, got.data(), sizeof(got));
  EXPECT_EQ(got[3], 2);
  EXPECT_EQ(got[15], 4);
  for (int64_t hostile : {int64_t{16}, int64_t{-1}, int64_t{1} << 60}) {
    places[2] = hostile;
    rank.arena.write(2 * kRoom, places.data(), sizeof(places));
    try {
      rank.executor.run(1);
      ADD_FAILURE() << hostile << " was not refused";
    } catch (const Error &error) {
      EXPECT_EQ(error.id(), ErrorId::KernelFailed);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("expected 0 to 15"));
    }
  }
}

TEST(KernelCall, KernelsThatWriteIntoTheirListsGetCopies) {
  Rank rank("fsdp_test::write_into_list", {1}, plan::ArgKind::optional_tensors);
  for (uint64_t step = 0; step < 3; ++step) {
    std::array<float, kElements> given, more;
    given.fill(static_cast<float>(step) + 5);
    rank.arena.write(0, given.data(), sizeof(given));
    rank.executor.run(step);
    rank.arena.read(kRoom, more.data(), sizeof(more));
    EXPECT_EQ(more[3], given[3] + 1) << "step " << step;
  }
}

TEST(KernelCall, NoneForATensorIsAnUndefinedOne) {
  plan::PlanT plan =
      build("fsdp_test::add_if_there", {1}, plan::ArgKind::tensor);
  plan::CallT &call = *plan.programs[0]->instructions[0]->body.AsCall();
  call.args.push_back(std::make_unique<plan::ArgT>());
  call.args[1]->kind = plan::ArgKind::none;
  Rank rank(std::move(plan));
  std::array<float, kElements> given, more;
  given.fill(4);
  rank.arena.write(0, given.data(), sizeof(given));
  for (uint64_t step = 0; step < 2; ++step)
    rank.executor.run(step);
  rank.arena.read(kRoom, more.data(), sizeof(more));
  EXPECT_THAT(more, ::testing::Each(5));
}

/// Two results, the second an integer that lies behind the first.
plan::PlanT buildWithSeed() {
  plan::PlanT plan =
      build("fsdp_test::with_seed", {1, 2}, plan::ArgKind::tensor);
  plan::ValueT &seed = *plan.programs[0]->values[2];
  seed.dtype = plan::DType::i64;
  seed.shape = {};
  seed.bytes = sizeof(int64_t);
  return plan;
}

TEST(KernelCall, ResultsThatNobodyNeedsAreLetGo) {
  plan::PlanT plan = buildWithSeed();
  plan.programs[0]->results.pop_back();
  // Of a type that the kernel does not give.
  plan.programs[0]->values[2]->dtype = plan::DType::u64;
  plan.programs[0]->values[2]->shape = {1};
  Rank rank(std::move(plan));
  rank.arena.fill(0, 0, rank.arena.bytes());
  rank.arena.fill(2 * kRoom, 0x77, 8);
  for (uint64_t step = 0; step < 3; ++step)
    rank.executor.run(step);
  std::array<float, kElements> more;
  rank.arena.read(kRoom, more.data(), sizeof(more));
  EXPECT_THAT(more, ::testing::Each(1));
  // Not even copied.
  std::array<unsigned char, 8> seed;
  rank.arena.read(2 * kRoom, seed.data(), sizeof(seed));
  EXPECT_THAT(seed, ::testing::Each(0x77));
}

TEST(KernelCall, ResultsOfAnotherTypeAreRefusedIfTheyAreNeeded) {
  plan::PlanT plan = buildWithSeed();
  plan.programs[0]->values[2]->dtype = plan::DType::u64;
  Rank rank(std::move(plan));
  try {
    rank.executor.run(0);
    FAIL() << "was not refused";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::ResultUnplanned) << error.what();
  }
}

TEST(KernelCall, AResultThatComesFromElsewhereHasItsPlaceIfItIsAskedForLater) {
  installPlannedAllocator();
  for (bool isNeeded : {true, false}) {
    plan::PlanT plan = buildWithSeed();
    if (!isNeeded)
      plan.programs[0]->results.pop_back();
    Rank rank(std::move(plan));
    rank.executor.rehearse();
    Arena scratch(4096);
    rank.memory.setScratch(scratch.at(0), scratch.bytes());
    rank.executor.run(0);
    isInCapture = true;
    rank.executor.run(1);
    isInCapture = false;
    EXPECT_EQ(rank.memory.missedBytes(), 0u) << isNeeded;
    std::array<float, kElements> more;
    rank.arena.read(kRoom, more.data(), sizeof(more));
    EXPECT_THAT(more, ::testing::Each(1));
  }
}

TEST(KernelCall, ARehearsalTakesWhatIsNobodysWhereADeviceHasNothingLeft) {
  borrowed = {};
  Rank rank("fsdp_test::borrow_temporary", {1});
  std::array<float, kElements> given, more;
  given.fill(4);
  rank.arena.write(0, given.data(), sizeof(given));
  rank.executor.rehearse();
  ASSERT_TRUE(rank.arena.contains(borrowed.begin));
  // Neither operand nor result, and nothing is left there.
  rank.arena.read(0, given.data(), sizeof(given));
  EXPECT_THAT(given, ::testing::Each(4));
  rank.arena.read(kRoom, more.data(), sizeof(more));
  EXPECT_THAT(more, ::testing::Each(5));
  EXPECT_EQ(std::count(rank.arena.at(0), rank.arena.at(4 * kRoom), '\xff'), 0);
  // In a step it has its place in the scratch region.
  EXPECT_GE(rank.memory.scratchNeeded(), 300u);
}

TEST(KernelCall, WhatALibraryKeepsIsNotLentToIt) {
  borrowed = {.keeps = true};
  Rank rank("fsdp_test::borrow_temporary", {1});
  try {
    rank.executor.rehearse();
    FAIL() << "was not refused";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::OutOfMemory) << error.what();
  }
}

TEST(KernelCall, WhatADeviceHasNoMemoryForIsSaidInTheRehearsal) {
  Rank rank("fsdp_test::too_much", {1});
  try {
    rank.executor.rehearse();
    FAIL() << "was not refused";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::OutOfMemory) << error.what();
  }
}

} // namespace
