//===- Collectives.cpp - Times of transfers -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/calibrate/Cases.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>
#include <utility>

#include <sys/resource.h>

using namespace fsdp;

static constexpr size_t kTransferSizes[] = {
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
    {10e-3, 9}, {100e-3, 4}, {1e9, 2}};
/// What large transfers cost shows in so many computations, one behind the
/// other, that take so long.
static constexpr double kBeyondSeconds = 0.1;
static constexpr size_t kMostBeyond = size_t(16) << 20;
static constexpr int kLeastRounds = 3, kMostRounds = 24, kBeyonds = 2;
/// What ranks compute between two meetings, and how long so much one behind the
/// other takes, each so many times.
struct SkewSeries {
  double span, seconds;
  int repetitions;
};
static constexpr SkewSeries kSkews[] = {
    {1e-3, 0.05, 3}, {4e-3, 0.1, 5}, {16e-3, 0.2, 9}};
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
  /// Seconds that ranks take longer with this transfer beside each of some
  /// computations of so many seconds than with a smaller one.
  double measureBeyond(Repeated &smaller, Computation &work, double seconds);
  struct Skew {
    double apart; ///< seconds between two waits
    double lost;  ///< what each takes because ranks do not come at once
  };
  /// Of ranks that compute so many products between.
  Skew measureSkew(Computation &work, const Times &alone,
                   const SkewSeries &series);

private:
  struct Round {
    double part = 0;    ///< of the transfer that went on while ranks computed
    double seconds = 0; ///< that they did
    double lost = 0;    ///< of them, because of the transfer
  };
  /// `products` beside a transfer, in the mean.
  Round compute(Computation &work, int products, const Times &alone,
                int repetitions);

  /// Seconds until all ranks have computed so many spans of `products`, one
  /// behind the other, each beside a transfer or alone.
  double computeSpans(Computation &work, int products, int spans,
                      bool hasTransfers);

  Communicator::Ticket start();

  /// Memory that is moved, several times so that it is cold.
  struct Turn {
    std::vector<std::vector<float>> memory;
    Members members;
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
      const CollectiveFacts &facts = getFacts(kind);
      auto make = [&](Whole is) {
        bool isPart = is == Whole::given ? facts.whole == Whole::got
                                         : facts.whole == Whole::given;
        return turn.memory.emplace_back(isPart ? part : whole, 1.0f).data();
      };
      float *from = make(Whole::given);
      float *to = facts.isInPlace ? from : make(Whole::got);
      turn.members.push_back({from, to,
                              facts.whole == Whole::neither ? whole : part,
                              plan::DType::f32});
    }
}

Communicator::Ticket Repeated::start() {
  const Turn &turn = turns[next];
  next = (next + 1) % turns.size();
  return crew.transfers().start(
      {{kind, "calibrate"},
       turn.members,
       isReduction(kind) ? plan::Reduction::avg : plan::Reduction::sum});
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

double Repeated::computeSpans(Computation &work, int products, int spans,
                              bool hasTransfers) {
  crew.meet();
  auto begin = Crew::Clock::now();
  for (int i = 0; i < spans; ++i) {
    Communicator::Ticket ticket = hasTransfers ? start() : 0;
    work.run(products);
    if (hasTransfers)
      crew.transfers().wait(ticket);
  }
  crew.meet();
  return Crew::since(begin);
}

double Repeated::measureBeyond(Repeated &smaller, Computation &work,
                               double seconds) {
  int products = std::max(1, int(seconds / work.seconds()));
  int spans =
      std::clamp(int(kBeyondSeconds / seconds), kLeastRounds, kMostRounds);
  std::vector<double> beyond;
  for (int i = 0; i < kBeyonds; ++i) {
    double without = smaller.computeSpans(work, products, spans, true);
    double with = computeSpans(work, products, spans, true);
    beyond.push_back((with - without) / spans);
  }
  return median(beyond);
}

Repeated::Skew Repeated::measureSkew(Computation &work, const Times &alone,
                                     const SkewSeries &series) {
  int products = std::max(1, int(series.span / work.seconds()));
  int spans = int(series.seconds / series.span);
  std::vector<double> apart, lost;
  for (int i = 0; i < series.repetitions; ++i) {
    double without = computeSpans(work, products, spans, false) / spans;
    double with = computeSpans(work, products, spans, true) / spans;
    apart.push_back(without);
    lost.push_back(with - without - alone.start - alone.finish);
  }
  return {median(apart), median(lost)};
}

/// Ranks that share cores take turns, so those that are to meet do not come at
/// once: the last one has a core to itself, and the others' is idle. A small
/// transfer costs nothing else.
static void measureSkews(Crew &crew, Computation &work,
                         std::vector<Measured> &results) {
  Repeated small(crew, CollectiveKind::all_gather,
                 kTransferSizes[0] / sizeof(float) / size_t(crew.size()), 1);
  Repeated::Times alone = small.measure(11);
  double least = 0;
  results.push_back({"skew seconds", {0}, 0});
  for (const SkewSeries &series : kSkews) {
    auto [apart, lost] = small.measureSkew(work, alone, series);
    least = std::max(least, double(crew.average(float(lost))));
    results.push_back({"skew seconds", {crew.average(float(apart))}, least});
  }
}

namespace {

/// What was measured of one size, in each pass.
struct SizeTimes {
  std::vector<double> starts, finishes, moves, processor, beside, lost, beyond;
};

} // namespace

static void measureSizes(Crew &crew, Computation &work, CollectiveKind kind,
                         std::map<size_t, SizeTimes> &all) {
  auto elements = [&](size_t bytes) {
    return bytes / sizeof(float) / size_t(crew.size());
  };
  Repeated small(crew, kind, elements(kTransferSizes[0]), 1);
  double smallHandling = 0;
  for (size_t bytes : kTransferSizes) {
    SizeTimes &size = all[bytes];
    Repeated repeated(crew, kind, elements(bytes), 1);
    Repeated::Times times = repeated.measure(bytes >= kLeastForShare ? 5 : 9);
    double moves = times.moves();
    size.starts.push_back(times.start);
    size.finishes.push_back(times.finish);
    size.moves.push_back(moves);
    // Of ranks that are threads, nothing moves but in their waits.
    bool isBeside = crew.average(float(moves / times.whole)) > 0.1f;
    size.processor.push_back(moves > 0.1 * times.whole ? times.processor / moves
                                                       : 0);
    if (!isBeside)
      continue;
    Repeated::Beside beside = repeated.measureBeside(work, times);
    size.beside.push_back(beside.seconds);
    size.lost.push_back(beside.lost);
    double handling = times.start + times.finish;
    if (bytes == kTransferSizes[0])
      smallHandling = handling;
    if (bytes < kLeastForShare || bytes > kMostBeyond)
      continue;
    double span = crew.average(float(beside.seconds));
    for (int i = 0; i < kBeyonds; ++i)
      size.beyond.push_back(repeated.measureBeyond(small, work, span) -
                            handling + smallHandling);
  }
}

static void measureKind(Crew &crew, Computation &work, CollectiveKind kind,
                        std::vector<Measured> &results) {
  std::string name = getName(kind);
  std::map<size_t, SizeTimes> all;
  for (int pass = 0; pass < kPasses; ++pass)
    measureSizes(crew, work, kind, all);
  std::vector<double> shares;
  std::vector<Measured> besides;
  double smallLost = 0;
  for (auto &[bytes, size] : all) {
    auto ranks = size_t(crew.size());
    double whole =
        double(bytes / sizeof(float) / ranks * ranks * sizeof(float));
    auto least = [](const std::vector<double> &values) {
      return std::ranges::min(values);
    };
    results.push_back({name + " start", {whole}, least(size.starts)});
    results.push_back({name + " finish", {whole}, least(size.finishes)});
    results.push_back({name + " seconds", {whole}, least(size.moves)});
    if (bytes >= kLeastForShare)
      shares.push_back(median(size.processor));
    if (size.beside.empty())
      continue;
    double beside = std::max(least(size.beside), least(size.moves));
    besides.push_back({name + " beside", {whole}, beside});
    double lost = least(size.lost);
    if (bytes == kTransferSizes[0])
      smallLost = lost;
    if (!size.beyond.empty())
      lost = std::max(lost, smallLost + firstQuarter(size.beyond));
    results.push_back({name + " lost", {whole}, std::min(lost, beside)});
  }
  results.push_back({name + " processor", {}, median(shares)});
  // Short ones wait for the same slices of the system as longer ones.
  for (size_t i = besides.size(); i-- > 1;)
    besides[i - 1].value = std::min(besides[i - 1].value, besides[i].value);
  results.insert(results.end(), besides.begin(), besides.end());
  size_t elements = kTensorBytes / sizeof(float);
  double one = Repeated(crew, kind, elements * kTensors, 1).measure(21).least;
  double several = Repeated(crew, kind, elements, kTensors).measure(21).least;
  results.push_back(
      {name + " tensor", {}, std::max(0.0, several - one) / (kTensors - 1)});
}

void fsdp::measureCollectives(Crew &crew, std::vector<Measured> &results) {
  sayProgress(crew, "transfers");
  Computation work(crew);
  for (CollectiveKind kind : plan::EnumValuesCollectiveKind())
    measureKind(crew, work, kind, results);
  measureSkews(crew, work, results);
}
