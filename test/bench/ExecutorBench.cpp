//===- ExecutorBench.cpp - What a step costs beside its kernels -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program of 1,000 tiny kernels, against the same kernels called directly
// with their C++ functions: those that make their result, from the heap, and
// those that write into one (out=). All times are of the same process, in
// turns, in nanoseconds for each kernel; `overhead_ns` is the step's difference
// to the cheaper of both.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/backends/Backends.h"
#include "runtime/device/Arena.h"
#include "runtime/device/PlannedAllocator.h"
#include "runtime/exec/Device.h"
#include "runtime/exec/Executor.h"
#include "runtime/exec/HostDevice.h"

#include <ATen/Parallel.h>
#include <ATen/ops/add.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tanh.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

using namespace fsdp;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kKernels = 1000;
constexpr uint64_t kRoom = 128;

/// x = op(x, y), over and over, in eight slots that take turns.
struct Chain {
  const char *op, *overload;
  int operands;
  bool hasAlpha;
  at::Tensor (*function)(const at::Tensor &, const at::Tensor &);
  void (*into)(at::Tensor &, const at::Tensor &, const at::Tensor &);
};

const Chain kChains[] = {
    {"aten::add", "Tensor", 2, true,
     [](const at::Tensor &x, const at::Tensor &y) { return at::add(x, y); },
     [](at::Tensor &to, const at::Tensor &x, const at::Tensor &y) {
       at::add_out(to, x, y);
     }},
    {"aten::mul", "Tensor", 2, false,
     [](const at::Tensor &x, const at::Tensor &y) { return at::mul(x, y); },
     [](at::Tensor &to, const at::Tensor &x, const at::Tensor &y) {
       at::mul_out(to, x, y);
     }},
    {"aten::mm", "", 2, false,
     [](const at::Tensor &x, const at::Tensor &y) { return at::mm(x, y); },
     [](at::Tensor &to, const at::Tensor &x, const at::Tensor &y) {
       at::mm_out(to, x, y);
     }},
    {"aten::tanh", "", 1, false,
     [](const at::Tensor &x, const at::Tensor &) { return at::tanh(x); },
     [](at::Tensor &to, const at::Tensor &x, const at::Tensor &) {
       at::tanh_out(to, x);
     }},
};

plan::PlanT makePlan(const Chain &chain) {
  constexpr int kSlots = 8;
  plan::PlanT plan;
  plan.operators.push_back(std::make_unique<plan::OperatorT>());
  plan.operators[0]->name = chain.op;
  plan.operators[0]->overload = chain.overload;
  plan.programs.push_back(std::make_unique<plan::ProgramT>());
  plan::ProgramT &program = *plan.programs[0];
  for (int i = 0; i < kKernels + 2; ++i) {
    auto value = std::make_unique<plan::ValueT>();
    value->shape = {4, 4};
    // The first two are operands of many.
    value->offset = kRoom * (i < 2 ? i : 2 + i % kSlots);
    value->bytes = 64;
    program.values.push_back(std::move(value));
  }
  auto arg = [](plan::ArgKind kind) {
    auto arg = std::make_unique<plan::ArgT>();
    arg->kind = kind;
    return arg;
  };
  for (int i = 0; i < kKernels; ++i) {
    plan::CallT call;
    auto x = arg(plan::ArgKind::tensor);
    x->values = {i == 0 ? 0 : i + 1};
    call.args.push_back(std::move(x));
    if (chain.operands == 2) {
      auto y = arg(plan::ArgKind::tensor);
      y->values = {1};
      call.args.push_back(std::move(y));
    }
    if (chain.hasAlpha) {
      auto alpha = arg(plan::ArgKind::integer);
      alpha->ints = {1};
      call.args.push_back(std::move(alpha));
    }
    call.results = {i + 2};
    auto instruction = std::make_unique<plan::InstructionT>();
    instruction->body.Set(std::move(call));
    program.instructions.push_back(std::move(instruction));
  }
  plan.memory = std::make_unique<plan::MemoryT>();
  plan.memory->peak = kRoom * (2 + kSlots);
  return plan;
}

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

void stepOfTinyKernels(benchmark::State &state, const Chain &chain) {
  at::set_num_threads(1);
  plan::PlanT plan = makePlan(chain);
  Arena arena(plan.memory->peak);
  RankMemory memory;
  auto fabrics = findBackend("fake").connect({});
  Transfers transfers(plan, *fabrics[0]);
  installPlannedAllocator();
  auto device = makeHostDevice(*fabrics[0]);
  Executor executor({.plan = plan,
                     .arenas = arena,
                     .memory = memory,
                     .transfers = transfers,
                     .shared = nullptr,
                     .rank = 0,
                     .device = *device},
                    *plan.programs[0]);
  executor.run(0);
  c10::InferenceMode guard;
  at::Tensor one = at::ones({4, 4});
  at::Tensor places[2] = {at::ones({4, 4}), at::ones({4, 4})};
  std::vector<double> steps, functions, outs;
  uint64_t step = 0;
  for (auto _ : state) {
    auto begin = Clock::now();
    executor.run(++step);
    auto stepped = Clock::now();
    at::Tensor x = one;
    for (int i = 0; i < kKernels; ++i)
      x = chain.function(x, one);
    benchmark::DoNotOptimize(x.data_ptr());
    auto called = Clock::now();
    for (int i = 0; i < kKernels; ++i)
      chain.into(places[(i + 1) % 2], places[i % 2], one);
    auto end = Clock::now();
    steps.push_back(seconds(stepped - begin));
    functions.push_back(seconds(called - stepped));
    outs.push_back(seconds(end - called));
    state.SetIterationTime(steps.back());
  }
  auto least = [](const std::vector<double> &times) {
    return *std::min_element(times.begin(), times.end()) / kKernels * 1e9;
  };
  state.counters["step_ns"] = least(steps);
  state.counters["functions_ns"] = least(functions);
  state.counters["out_ns"] = least(outs);
  state.counters["overhead_ns"] =
      least(steps) - std::min(least(functions), least(outs));
}

} // namespace

int main(int argc, char **argv) {
  for (const Chain &chain : kChains)
    benchmark::RegisterBenchmark(
        (std::string("step_of_1000/") + chain.op).c_str(),
        [&chain](benchmark::State &state) { stepOfTinyKernels(state, chain); })
        ->UseManualTime()
        ->MinTime(0.5);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
