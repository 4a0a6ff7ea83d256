//===- GpuCaptureTest.cpp - What a failed capture leaves behind -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "GpuRank.h"
#include "NeedsGpu.h"

#include "runtime/cuda/DeviceAllocator.h"
#include "runtime/cuda/Memory.h"
#include "support/Error.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;
using plan::DType;
namespace caching = c10::cuda::CUDACachingAllocator;

namespace {

/// The host looks at a number, which no capture allows.
at::Tensor addByHost(const at::Tensor &x) {
  return x.add(x.select(0, 0).item<double>() * 0 + 1);
}

TORCH_LIBRARY_FRAGMENT(fsdp_gpu_test, m) {
  m.def("add_by_host(Tensor x) -> Tensor");
  m.impl("add_by_host", c10::DispatchKey::CUDA, addByHost);
}

class GpuCapture : public testing::Test {
protected:
  void SetUp() override { FSDP_NEEDS_GPU(); }

  /// A program that counts by one, with `call` to turn one tensor into the next
  /// where it does more than that.
  template <typename Call>
  void addProgram(const std::string &name, Call call) {
    small.beginProgram(name);
    int32_t count = small.add(DType::f32, {1});
    places.push_back(small.offsetOf(count));
    int32_t next = small.add(DType::f32, {1});
    call(count, next);
    small.copy(next, count);
  }
  void addOne(int32_t count, int32_t next) {
    small.call("aten::add", "Scalar", {next}, SmallPlan::tensor(count),
               SmallPlan::integer(1), SmallPlan::integer(1));
  }
  float countOf(GpuRank &rank, size_t program) {
    float value = 0;
    rank.arena->read(places[program], &value, sizeof(value));
    return value;
  }

  SmallPlan small;
  std::vector<uint64_t> places;
};

TEST_F(GpuCapture, AProgramThatCannotBeCapturedLeavesOthersTheirGraphs) {
  addProgram("captured before", [&](int32_t a, int32_t b) { addOne(a, b); });
  addProgram("refused", [&](int32_t a, int32_t b) {
    small.call("fsdp_gpu_test::add_by_host", "", {b}, SmallPlan::tensor(a));
  });
  addProgram("captured behind", [&](int32_t a, int32_t b) { addOne(a, b); });
  GpuRank rank(small);
  for (int i = 0; i < 8; ++i)
    for (size_t program : {0, 1, 2})
      rank.run(program);
  for (size_t program : {0, 1, 2})
    EXPECT_EQ(countOf(rank, program), 8) << program;
}

TEST_F(GpuCapture, LibrariesWorkBehindACaptureThatTheyRefused) {
  addProgram("refused by cuSOLVER", [&](int32_t a, int32_t b) {
    int32_t matrix = small.add(DType::f32, {6, 6});
    int32_t values = small.add(DType::f32, {6});
    int32_t vectors = small.add(DType::f32, {6, 6});
    small.give(values);
    small.call("aten::_linalg_eigh", "", {values, vectors},
               SmallPlan::tensor(matrix), SmallPlan::text("L"),
               SmallPlan::boolean(true));
    addOne(a, b);
  });
  addProgram("cuSOLVER's factors", [&](int32_t a, int32_t b) {
    int32_t factor = small.add(DType::f32, {1, 1});
    int32_t info = small.add(DType::i32, {});
    int32_t matrix = small.add(DType::f32, {1, 1});
    small.give(factor);
    small.call("aten::linalg_cholesky_ex", "", {factor, info},
               SmallPlan::tensor(matrix), SmallPlan::boolean(false),
               SmallPlan::boolean(false));
    addOne(a, b);
  });
  addProgram("cuBLAS' products", [&](int32_t a, int32_t b) {
    int32_t matrix = small.add(DType::f32, {8, 8});
    int32_t product = small.add(DType::f32, {8, 8});
    small.give(product);
    small.call("aten::mm", "", {product}, SmallPlan::tensor(matrix),
               SmallPlan::tensor(matrix));
    addOne(a, b);
  });
  GpuRank rank(small);
  for (int i = 0; i < 8; ++i)
    for (size_t program : {0, 1, 2})
      rank.run(program);
  for (size_t program : {0, 1, 2})
    EXPECT_EQ(countOf(rank, program), 8) << program;
}

TEST_F(GpuCapture, NoWorkspaceOutlivesItsSession) {
  auto &workspaces = at::cuda::cublas_handle_stream_to_workspace();
  size_t before = workspaces.map.size();
  addProgram("any", [&](int32_t a, int32_t b) { addOne(a, b); });
  {
    GpuRank rank(small);
    rank.run(0);
    EXPECT_GT(workspaces.map.size(), before);
  }
  EXPECT_EQ(workspaces.map.size(), before);
}

TEST_F(GpuCapture, ARehearsalBorrowsWhereTheDeviceHasNothingLeft) {
  addProgram("any", [&](int32_t a, int32_t b) { addOne(a, b); });
  GpuRank rank(small);
  Arena spare(1 << 20, rank.device->memory());
  auto part = [&] { return RankMemory::Bytes(spare.at(0), spare.bytes()); };
  RankMemory::Current current(rank.memory);
  RankMemory::Loan loan(
      rank.memory, [&] { return std::vector{part()}; },
      [&](RankMemory::Bytes bytes) {
        spare.fill(static_cast<uint64_t>(bytes.data() - spare.at(0)), 0,
                   bytes.size());
      });
  caching::emptyCache();
  struct Limit {
    Limit() { caching::setMemoryFraction(0, 0); }
    ~Limit() { caching::setMemoryFraction(1, 0); }
  } limit;
  RankMemory::Observation observation(rank.memory);
  void *taken = caching::raw_alloc(1 << 16);
  EXPECT_TRUE(spare.contains(taken));
  void *other = caching::raw_alloc(1 << 16);
  EXPECT_TRUE(spare.contains(other));
  EXPECT_NE(taken, other);
  EXPECT_THROW(caching::raw_alloc(1 << 21), c10::OutOfMemoryError);
  caching::raw_delete(taken);
  caching::raw_delete(other);
  std::vector<AllocationSlot> slots(observation.requests().size());
  observation.placeTemporaries(slots);
  ASSERT_EQ(slots.size(), 2u);
  EXPECT_EQ(slots[0].room, size_t(1) << 16);
}

} // namespace
