//===- PackingBench.cpp - How well and how fast buffers are packed --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lifetimes like those of a training step: what forward makes is read by
// backward in the opposite order, and between them much lives for a moment.
// `over_bound` is the region over the lower bound.
//
//===----------------------------------------------------------------------===//

#include "passes/plan/Packing.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <vector>

using namespace fsdp;

namespace {

/// `count` buffers, a third of which wait for backward.
std::vector<Interval> makeStep(int64_t count) {
  std::mt19937_64 random(1);
  auto bytes = [&] { return int64_t(64) << random() % 16; };
  std::vector<Interval> intervals;
  int64_t end = 2 * count;
  for (int64_t i = 0; i < count; ++i) {
    if (i % 3 == 0) {
      intervals.push_back({bytes(), i, end - i});
      continue;
    }
    int64_t first = static_cast<int64_t>(random() % static_cast<uint64_t>(end));
    int64_t length = 1 + static_cast<int64_t>(random() % 8);
    intervals.push_back({bytes(), first, std::min(end, first + length)});
  }
  return intervals;
}

using Packer = Packing (*)(const std::vector<Interval> &);

void packing(benchmark::State &state, Packer packer) {
  std::vector<Interval> intervals = makeStep(state.range(0));
  Packing packing;
  for (auto _ : state)
    packing = packer(intervals);
  state.counters["over_bound"] = static_cast<double>(packing.bytes) /
                                 static_cast<double>(lowerBound(intervals));
}

Packing byTime(const std::vector<Interval> &all) { return packByTime(all); }
Packing bySize(const std::vector<Interval> &all) { return packBySize(all); }
Packing byArea(const std::vector<Interval> &all) { return packByArea(all); }
Packing best(const std::vector<Interval> &all) { return pack(all); }

void sizes(benchmark::internal::Benchmark *bench) {
  bench->Arg(300)->Arg(3000)->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(packing, by_time, byTime)->Apply(sizes);
BENCHMARK_CAPTURE(packing, by_size, bySize)->Apply(sizes);
BENCHMARK_CAPTURE(packing, by_area, byArea)->Apply(sizes);
BENCHMARK_CAPTURE(packing, best, best)->Apply(sizes);

} // namespace

BENCHMARK_MAIN();
