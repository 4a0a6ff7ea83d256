//===- TransferBench.cpp - Transfers among threads ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moving memory costs what moving memory costs: every figure is a ratio to
// memcpy of as many bytes, measured in the same run and in turns.
// `over_memcpy` is 1 where a byte read or written takes as long as in memcpy.
// `record` says in nanoseconds what the flight record of a transfer costs.
//
//===----------------------------------------------------------------------===//

#include "plan/DType.h"
#include "runtime/comm/Reduce.h"
#include "runtime/comm/flights/RecordedFabric.h"
#include "runtime/comm/local/Local.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

using namespace fsdp;
using Clock = std::chrono::steady_clock;

namespace {

/// Of one rank's operand: larger than any cache.
constexpr size_t kBytes = size_t(64) << 20;

double seconds(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Runs `work`, which moves `bytes` bytes (reads and writes), in turns with a
/// memcpy that moves 2 * kBytes.
template <typename Work>
void compare(benchmark::State &state, double bytes, Work work) {
  std::vector<char> from(kBytes, 1), to(kBytes);
  double working = 0, copying = 0;
  for (auto _ : state) {
    Clock::time_point begin = Clock::now();
    work();
    working += seconds(begin);
    state.PauseTiming();
    begin = Clock::now();
    std::memcpy(to.data(), from.data(), kBytes);
    benchmark::ClobberMemory();
    copying += seconds(begin);
    state.ResumeTiming();
  }
  state.counters["over_memcpy"] = working / bytes / (copying / (2 * kBytes));
}

/// The sum of `ranks` rows.
void reduce(benchmark::State &state, plan::DType dtype, size_t ranks) {
  std::vector<std::vector<char>> rows(ranks, std::vector<char>(kBytes));
  std::vector<char> sum(kBytes);
  std::vector<const void *> sources;
  for (const auto &row : rows)
    sources.push_back(row.data());
  void *output = sum.data();
  compare(state, static_cast<double>(kBytes) * static_cast<double>(ranks + 1),
          [&] {
            reduceRows(sources, {&output, 1}, kBytes / dtypeBytes(dtype), dtype,
                       plan::Reduction::sum);
          });
}

/// Runs `transfer(rank, communicator)` on a thread for each rank.
template <typename Transfer>
void onRanks(std::vector<std::unique_ptr<Communicator>> &ranks,
             Transfer transfer) {
  std::vector<std::thread> threads;
  for (size_t rank = 1; rank < ranks.size(); ++rank)
    threads.emplace_back([&, rank] { transfer(rank, *ranks[rank]); });
  transfer(0, *ranks[0]);
  for (std::thread &thread : threads)
    thread.join();
}

std::vector<std::unique_ptr<Communicator>> makeCommunicators(size_t ranks) {
  auto fabrics =
      makeLocalFabrics(static_cast<int>(ranks), std::chrono::seconds(60));
  GroupRanks group{"bench", {}};
  for (size_t rank = 0; rank < ranks; ++rank)
    group.ranks.push_back(static_cast<int>(rank));
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (auto &fabric : fabrics)
    communicators.push_back(fabric->createCommunicator(group));
  return communicators;
}

/// All ranks copy all shards; `isShared`: the shards lie at their places.
void allGather(benchmark::State &state, size_t ranks, bool isShared) {
  auto communicators = makeCommunicators(ranks);
  size_t shard = kBytes / ranks;
  std::vector<std::vector<char>> full(ranks), shards(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    full[rank].resize(kBytes);
    shards[rank].resize(shard);
  }
  double moved = 2.0 * static_cast<double>(kBytes * ranks);
  compare(state, moved, [&] {
    onRanks(communicators, [&](size_t rank, Communicator &communicator) {
      Member member{shards[rank].data(), full[rank].data(), shard};
      if (isShared)
        member = {full[0].data() + rank * shard, full[0].data(), shard};
      communicator.wait(communicator.start(
          {{CollectiveKind::all_gather, "bench", 0}, {&member, 1}}));
    });
  });
}

void reduceScatter(benchmark::State &state, size_t ranks) {
  auto communicators = makeCommunicators(ranks);
  size_t shard = kBytes / ranks;
  std::vector<std::vector<char>> full(ranks, std::vector<char>(kBytes)),
      shards(ranks, std::vector<char>(shard));
  compare(state, static_cast<double>(kBytes * ranks + kBytes), [&] {
    onRanks(communicators, [&](size_t rank, Communicator &communicator) {
      Member member{full[rank].data(), shards[rank].data(),
                    shard / sizeof(float), plan::DType::f32};
      communicator.wait(
          communicator.start({{CollectiveKind::reduce_scatter, "bench", 0},
                              {&member, 1},
                              plan::Reduction::sum}));
    });
  });
}

/// A gather of four bytes among one rank alone, with its record and without, in
/// turns.
void record(benchmark::State &state) {
  constexpr int kTransfers = 1000;
  FlightRing ring(0);
  auto plain = makeLocalFabrics(1, std::chrono::seconds(60));
  RecordedFabric recorded(
      std::move(makeLocalFabrics(1, std::chrono::seconds(60))[0]), ring);
  GroupRanks group{"bench", {0}};
  auto without = plain[0]->createCommunicator(group);
  auto with = recorded.createCommunicator(group);
  auto measure = [&](Communicator &communicator) {
    float shard = 1, full = 0;
    Member member{&shard, &full, sizeof(shard)};
    Clock::time_point begin = Clock::now();
    for (int i = 0; i < kTransfers; ++i)
      communicator.wait(communicator.start(
          {{CollectiveKind::all_gather, "model.layers.0", 0, 0, i},
           {&member, 1}}));
    return seconds(begin) * 1e9 / kTransfers;
  };
  std::vector<double> plainly, recording;
  for (auto _ : state) {
    plainly.push_back(measure(*without));
    recording.push_back(measure(*with));
  }
  auto median = [](std::vector<double> &times) {
    std::ranges::nth_element(times, times.begin() + times.size() / 2);
    return times[times.size() / 2];
  };
  state.counters["transfer_ns"] = median(plainly);
  state.counters["recording_ns"] = median(recording) - median(plainly);
}

BENCHMARK(record);
BENCHMARK_CAPTURE(reduce, f32_2, plan::DType::f32, 2);
BENCHMARK_CAPTURE(reduce, f32_8, plan::DType::f32, 8);
BENCHMARK_CAPTURE(reduce, bf16_2, plan::DType::bf16, 2);
BENCHMARK_CAPTURE(reduce, f16_2, plan::DType::f16, 2);
BENCHMARK_CAPTURE(allGather, copied_2, 2, false)->UseRealTime();
BENCHMARK_CAPTURE(allGather, shared_2, 2, true)->UseRealTime();
BENCHMARK_CAPTURE(reduceScatter, f32_2, 2)->UseRealTime();

} // namespace

BENCHMARK_MAIN();
