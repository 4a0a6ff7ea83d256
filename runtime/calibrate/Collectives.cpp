//===- Collectives.cpp - Times of transfers -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/calibrate/Cases.h"

#include <algorithm>
#include <thread>

#include <sys/resource.h>

using namespace fsdp;

static constexpr size_t kSizes[] = {
    size_t(4) << 10, size_t(32) << 10, size_t(256) << 10, size_t(1) << 20,
    size_t(4) << 20, size_t(16) << 20, size_t(64) << 20};
/// Processor time of less is the clock's noise.
static constexpr size_t kLeastForShare = size_t(4) << 20;
static constexpr int kTensors = 8;
/// Bytes of a rank and tensor, above what gloo packs.
static constexpr size_t kTensorBytes = size_t(48) << 10;

namespace {

/// The same transfer again and again, of tensors of f32.
class Repeated {
public:
  /// `part`: elements of a rank, of each of `tensors`.
  Repeated(Crew &crew, CollectiveKind kind, size_t part, int tensors);

  struct Times {
    double start, whole, finish;
    double least;     ///< the first quarter of `whole`: for small differences
    double processor; ///< seconds of this process while it moves
  };
  Times measure(int repetitions);

private:
  Communicator::Ticket start();

  /// Memory that is moved, several times so that it is cold.
  struct Turn {
    std::vector<std::vector<float>> shards, full, passed;
    std::vector<GatherMember> gathers;
    std::vector<ReduceMember> reduces;
    std::vector<AllReduceMember> sums;
    std::vector<RotateMember> rotates;
  };

  Crew &crew;
  CollectiveKind kind;
  std::vector<Turn> turns;
  size_t next = 0;
};

double processorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval &time) {
    return double(time.tv_sec) + 1e-6 * double(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

} // namespace

Repeated::Repeated(Crew &crew, CollectiveKind kind, size_t part, int tensors)
    : crew(crew), kind(kind) {
  size_t whole = part * size_t(crew.size());
  turns.resize(size_t(countTurns(int64_t(whole * sizeof(float)) * tensors)));
  for (Turn &turn : turns)
    for (int i = 0; i < tensors; ++i) {
      std::vector<float> &shard = turn.shards.emplace_back(part, 1.0f);
      std::vector<float> &all = turn.full.emplace_back(whole, 1.0f);
      turn.gathers.push_back({shard.data(), all.data(), part * sizeof(float)});
      turn.reduces.push_back(
          {all.data(), shard.data(), part, plan::DType::f32});
      turn.sums.push_back({all.data(), whole, plan::DType::f32});
      if (kind != CollectiveKind::rotate)
        continue;
      std::vector<float> &passed = turn.passed.emplace_back(whole, 1.0f);
      turn.rotates.push_back(
          {all.data(), passed.data(), whole * sizeof(float)});
    }
}

Communicator::Ticket Repeated::start() {
  TransferLabel label{getName(kind), "calibrate", 0};
  Combination mean(plan::Reduction::avg);
  const Turn &turn = turns[next];
  next = (next + 1) % turns.size();
  switch (kind) {
  case CollectiveKind::allGather:
    return crew.transfers().startAllGather(turn.gathers, label);
  case CollectiveKind::reduceScatter:
    return crew.transfers().startReduceScatter(turn.reduces, mean, label);
  case CollectiveKind::allReduce:
    return crew.transfers().startAllReduce(turn.sums, mean, label);
  case CollectiveKind::rotate:
    return crew.transfers().startRotate(turn.rotates, label);
  }
  return 0;
}

Repeated::Times Repeated::measure(int repetitions) {
  std::vector<double> starts, wholes, finishes, processor;
  for (int i = 0; i <= repetitions; ++i) {
    crew.meet();
    auto begin = Crew::Clock::now();
    Communicator::Ticket ticket = start();
    double started = Crew::since(begin);
    crew.transfers().wait(ticket);
    double whole = Crew::since(begin);
    if (i == 0)
      continue; // it warms up
    starts.push_back(started);
    wholes.push_back(whole);
  }
  // What is left for the wait once all has come.
  double pause = 2 * median(wholes) + 0.5e-3;
  for (int i = 0; i < std::min(repetitions, 3); ++i) {
    crew.meet();
    Communicator::Ticket ticket = start();
    double before = processorSeconds();
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    processor.push_back(processorSeconds() - before);
    crew.meet();
    auto begin = Crew::Clock::now();
    crew.transfers().wait(ticket);
    finishes.push_back(Crew::since(begin));
  }
  return {median(starts), median(wholes), median(finishes),
          firstQuarter(wholes), median(processor)};
}

static void measureKind(Crew &crew, CollectiveKind kind,
                        std::vector<Measured> &results) {
  std::string name = getName(kind);
  auto ranks = size_t(crew.size());
  std::vector<double> shares;
  for (size_t bytes : kSizes) {
    size_t part = bytes / sizeof(float) / ranks;
    double whole = double(part * ranks * sizeof(float));
    Repeated::Times times =
        Repeated(crew, kind, part, 1).measure(bytes >= kLeastForShare ? 5 : 11);
    double moves = std::max(0.0, times.whole - times.start - times.finish);
    results.push_back({name + " start", {whole}, times.start});
    results.push_back({name + " finish", {whole}, times.finish});
    results.push_back({name + " seconds", {whole}, moves});
    // Of ranks that are threads, nothing moves but in their waits.
    if (bytes >= kLeastForShare)
      shares.push_back(moves > 0.1 * times.whole ? times.processor / moves : 0);
  }
  results.push_back({name + " processor", {}, median(shares)});
  size_t part = kTensorBytes / sizeof(float);
  double one = Repeated(crew, kind, part * kTensors, 1).measure(21).least;
  double all = Repeated(crew, kind, part, kTensors).measure(21).least;
  results.push_back(
      {name + " tensor", {}, std::max(0.0, all - one) / (kTensors - 1)});
}

void fsdp::measureCollectives(Crew &crew, std::vector<Measured> &results) {
  sayProgress(crew, "transfers");
  for (CollectiveKind kind :
       {CollectiveKind::allGather, CollectiveKind::reduceScatter,
        CollectiveKind::allReduce, CollectiveKind::rotate})
    measureKind(crew, kind, results);
}
