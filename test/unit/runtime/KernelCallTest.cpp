//===- KernelCallTest.cpp - Calls of LibTorch's operators -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/Arena.h"
#include "runtime/Device.h"
#include "runtime/Executor.h"
#include "runtime/PlannedAllocator.h"
#include "runtime/comm/Backends.h"
#include "runtime/support/Error.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <gtest/gtest.h>

#include <array>
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

TORCH_LIBRARY_FRAGMENT(fsdp_test, m) {
  m.def("write_into_list(Tensor?[] x) -> Tensor");
  m.impl("write_into_list", c10::DispatchKey::CPU, writeIntoList);
  m.def("with_length(Tensor x) -> (Tensor, int, Tensor)");
  m.impl("with_length", c10::DispatchKey::CPU, withLength);
  m.def("too_much(Tensor x) -> Tensor");
  m.impl("too_much", c10::DispatchKey::CPU, takeTooMuch);
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
  call.results = std::move(results);
  program.instructions.push_back(std::make_unique<plan::InstructionT>());
  program.instructions[0]->body.Set(std::move(call));
  return plan;
}

/// One that runs such a program, with room for three values.
struct Rank {
  explicit Rank(const char *op, std::vector<int32_t> results,
                plan::ArgKind kind = plan::ArgKind::tensor)
      : plan(build(op, std::move(results), kind)) {}

  plan::PlanT plan;
  Arena arena{3 * kRoom};
  RankMemory memory;
  std::vector<std::unique_ptr<Fabric>> fabrics =
      findBackend("fake").connect({});
  Transfers transfers{plan, *fabrics[0]};
  std::unique_ptr<Device> device = makeHostDevice(*fabrics[0]);
  Executor executor{plan,      *plan.programs[0], arena, memory,
                    transfers, nullptr,           0,     *device};
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
