//===- Collectives.cpp - Times of transfers -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/calibrate/Cases.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include <sys/resource.h>

using namespace fsdp;

static constexpr size_t kSizes[] = {
    size_t(4) << 10, size_t(32) << 10, size_t(256) << 10, size_t(1) << 20,
    size_t(4) << 20, size_t(16) << 20, size_t(64) << 20};
/// Processor time of less is the clock's noise.
static constexpr size_t kLeastForShare = size_t(4) << 20;
/// What computes beside a transfer goes on for so long, and twice as long until
/// so much of the transfer goes on meanwhile.
static constexpr double kLeastSpan = 0.25e-3, kEnough = 0.9;
/// Or until it took so long.
static constexpr double kMostSpan = 20e-3, kMostSpans = 16;
/// Repetitions of spans up to so long.
static constexpr std::pair<double, int> kRepetitions[] = {
    {10e-3, 15}, {100e-3, 7}, {1e9, 3}};
/// A wait takes so long although all has come.
static constexpr double kShortWait = 50e-6;
static constexpr int kWeights = 16;
static constexpr int kTensors = 8;
/// Bytes of a rank and tensor, above what gloo packs.
static constexpr size_t kTensorBytes = size_t(48) << 10;

namespace {

/// What a rank computes beside a transfer: products with weights that come from
/// memory, as most of a step.
class Computation {
public:
  explicit Computation(Crew &crew) {
    for (int i = 0; i < kWeights; ++i)
      weights.push_back(at::ones({512, 512}));
    one = crew.average(float(crew.time([&] { run(1); })));
  }
  /// Seconds of a product, the same on all ranks.
  double seconds() const { return one; }
  void run(int products) {
    for (int i = 0; i < products; ++i) {
      at::mm_out(result, input, weights[next]);
      next = (next + 1) % weights.size();
    }
  }

private:
  at::Tensor input = at::ones({64, 512}), result = at::empty({64, 512});
  std::vector<at::Tensor> weights;
  size_t next = 0;
  double one;
};

/// The same transfer again and again, of tensors of f32.
class Repeated {
public:
  /// `part`: elements of a rank, of each of `tensors`.
  Repeated(Crew &crew, CollectiveKind kind, size_t part, int tensors);

  struct Times {
    double start, whole, finish;
    double least;     ///< the first quarter of `whole`: for small differences
    double processor; ///< seconds of this process while it moves

    double moves() const { return std::max(0.0, whole - start - finish); }
  };
  Times measure(int repetitions);

  struct Beside {
    double seconds; ///< of the transfer, while ranks compute
    double lost;    ///< of what they compute meanwhile
  };
  /// Where a wait takes as long as `alone` says.
  Beside measureBeside(Computation &work, Times alone);

private:
  struct Round {
    double part = 0;    ///< of the transfer that went on while ranks computed
    double seconds = 0; ///< that they did
    double lost = 0;    ///< of them, because of the transfer
  };
  /// `products` beside a transfer, in the mean.
  Round compute(Computation &work, int products, const Times &alone,
                int repetitions);

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

double processorSeconds(int who = RUSAGE_SELF) {
  rusage usage{};
  getrusage(who, &usage);
  auto seconds = [](const timeval &time) {
    return double(time.tv_sec) + 1e-6 * double(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Of all threads but this one.
double loopSeconds() {
  return processorSeconds() - processorSeconds(RUSAGE_THREAD);
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

Repeated::Round Repeated::compute(Computation &work, int products,
                                  const Times &alone, int repetitions) {
  Round round;
  double loops = 0;
  for (int i = 0; i < repetitions; ++i) {
    crew.meet();
    auto begin = Crew::Clock::now();
    work.run(products);
    round.lost -= Crew::since(begin);
    crew.meet();
    Communicator::Ticket ticket = start();
    double before = loopSeconds();
    begin = Crew::Clock::now();
    work.run(products);
    double seconds = Crew::since(begin);
    loops += loopSeconds() - before;
    round.lost += seconds;
    round.seconds += seconds;
    begin = Crew::Clock::now();
    crew.transfers().wait(ticket);
    double left = Crew::since(begin) - alone.finish - kShortWait;
    round.part += std::clamp(1 - left / alone.moves(), 0.0, 1.0);
  }
  // What is more than all ranks' loops took is noise.
  round.lost =
      std::clamp(round.lost, 0.0, std::max(0.0, double(crew.size()) * loops));
  for (double *each : {&round.part, &round.seconds, &round.lost})
    *each /= repetitions;
  round.part = crew.average(float(round.part));
  return round;
}

Repeated::Beside Repeated::measureBeside(Computation &work, Times alone) {
  for (double *each : {&alone.start, &alone.whole, &alone.finish})
    *each = crew.average(float(*each));
  // What has still to come, over time: half of what a transfer takes that goes
  // on evenly.
  double left = 0;
  Round before;
  for (double span = std::max(alone.moves() / 2, kLeastSpan);; span *= 2) {
    const auto *repetitions = std::ranges::find_if(
        kRepetitions, [&](const auto &each) { return span <= each.first; });
    Round round = compute(work, int(std::ceil(span / work.seconds())), alone,
                          repetitions->second);
    left +=
        (round.seconds - before.seconds) * (1 - (round.part + before.part) / 2);
    before = round;
    if (round.part >= kEnough || span > kMostSpans * alone.moves() + kMostSpan)
      return {std::max(2 * left, alone.moves()),
              round.lost / std::max(round.part, kEnough)};
  }
}

static void measureKind(Crew &crew, Computation &work, CollectiveKind kind,
                        std::vector<Measured> &results) {
  std::string name = getName(kind);
  auto ranks = size_t(crew.size());
  std::vector<double> shares;
  std::vector<Measured> besides;
  for (size_t bytes : kSizes) {
    size_t part = bytes / sizeof(float) / ranks;
    double whole = double(part * ranks * sizeof(float));
    Repeated repeated(crew, kind, part, 1);
    Repeated::Times times = repeated.measure(bytes >= kLeastForShare ? 5 : 11);
    double moves = times.moves();
    results.push_back({name + " start", {whole}, times.start});
    results.push_back({name + " finish", {whole}, times.finish});
    results.push_back({name + " seconds", {whole}, moves});
    if (crew.average(float(moves / times.whole)) > 0.1f) {
      auto [seconds, lost] = repeated.measureBeside(work, times);
      besides.push_back({name + " beside", {whole}, seconds});
      results.push_back({name + " lost", {whole}, lost});
    }
    // Of ranks that are threads, nothing moves but in their waits.
    if (bytes >= kLeastForShare)
      shares.push_back(moves > 0.1 * times.whole ? times.processor / moves : 0);
  }
  results.push_back({name + " processor", {}, median(shares)});
  // Short ones wait for the same slices of the system as longer ones.
  for (size_t i = besides.size(); i-- > 1;)
    besides[i - 1].value = std::min(besides[i - 1].value, besides[i].value);
  results.insert(results.end(), besides.begin(), besides.end());
  size_t elements = kTensorBytes / sizeof(float);
  double one = Repeated(crew, kind, elements * kTensors, 1).measure(21).least;
  double all = Repeated(crew, kind, elements, kTensors).measure(21).least;
  results.push_back(
      {name + " tensor", {}, std::max(0.0, all - one) / (kTensors - 1)});
}

void fsdp::measureCollectives(Crew &crew, std::vector<Measured> &results) {
  sayProgress(crew, "transfers");
  Computation work(crew);
  for (CollectiveKind kind :
       {CollectiveKind::allGather, CollectiveKind::reduceScatter,
        CollectiveKind::allReduce, CollectiveKind::rotate})
    measureKind(crew, work, kind, results);
}
