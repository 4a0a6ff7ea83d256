//===- Conformance.cpp - What every back end must do ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Conformance.h"
#include "Harness.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <future>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;
using plan::DType;
using plan::Reduction;

namespace {

/// Elements of one rank's shard: none, few, packed and sent on their own.
const std::vector<size_t> kShardSizes = {0, 1, 3, 1000, 0, 40000, 700001, 5};

GroupRanks worldGroup(const Fabric &fabric, const char *name) {
  GroupRanks group{name, {}};
  for (int rank = 0; rank < fabric.worldSize(); ++rank)
    group.ranks.push_back(rank);
  return group;
}

/// Small whole numbers: their sums are exact in every element type.
int pattern(int rank, size_t index, int salt = 0) {
  return static_cast<int>((rank * 7 + index * 3 + salt) % 11);
}

template <typename T>
void requireEqual(const std::vector<T> &found, const std::vector<T> &expected,
                  const char *what) {
  require(found.size() == expected.size() &&
              (found.empty() || std::memcmp(found.data(), expected.data(),
                                            found.size() * sizeof(T)) == 0),
          std::string(what) + " gave other values than expected");
}

template <typename T>
T reduced(std::vector<double> values, Reduction reduction) {
  double result = values[0];
  for (size_t i = 1; i < values.size(); ++i)
    result = reduction == Reduction::max ? std::max(result, values[i])
                                         : result + values[i];
  if (reduction == Reduction::avg) {
    // In the type in which sums are formed: f32 for the 16-bit types.
    if constexpr (std::is_same_v<T, double>)
      return result / static_cast<double>(values.size());
    else
      return static_cast<T>(static_cast<float>(result) /
                            static_cast<float>(values.size()));
  }
  return static_cast<T>(result);
}

template <typename T>
void checkGather(Communicator &group) {
  std::vector<std::vector<T>> shards, fulls, expected;
  Members members;
  for (size_t size : kShardSizes) {
    shards.emplace_back(size);
    fulls.emplace_back(size * group.size());
    expected.emplace_back();
    for (size_t i = 0; i < size; ++i)
      shards.back()[i] = static_cast<T>(pattern(group.rank(), i));
    for (int rank = 0; rank < group.size(); ++rank)
      for (size_t i = 0; i < size; ++i)
        expected.back().push_back(static_cast<T>(pattern(rank, i)));
    members.push_back(
        {shards.back().data(), fulls.back().data(), size * sizeof(T)});
  }
  group.wait(group.start({{CollectiveKind::all_gather, "values", 0}, members}));
  for (size_t i = 0; i < fulls.size(); ++i)
    requireEqual(fulls[i], expected[i], "all_gather");
}

/// All around: what comes back is what was given.
template <typename T>
void checkRotation(Communicator &group) {
  for (size_t size : kShardSizes) {
    std::vector<T> given(size), now, next(size), small(3), smallNext(3);
    for (size_t i = 0; i < size; ++i)
      given[i] = static_cast<T>(pattern(group.rank(), i));
    small.assign(3, static_cast<T>(group.rank()));
    now = given;
    for (int step = 1; step <= group.size(); ++step) {
      Member members[] = {{now.data(), next.data(), size * sizeof(T)},
                          {small.data(), smallNext.data(), 3 * sizeof(T)}};
      group.wait(group.start({{CollectiveKind::rotate, "values", 0}, members}));
      std::swap(now, next);
      std::swap(small, smallNext);
      int from = (group.rank() - step + group.size()) % group.size();
      std::vector<T> expected(size);
      for (size_t i = 0; i < size; ++i)
        expected[i] = static_cast<T>(pattern(from, i));
      requireEqual(now, expected, "rotate");
      requireEqual(small, std::vector<T>(3, static_cast<T>(from)), "rotate");
    }
    requireEqual(now, given, "rotate");
  }
}

/// Part j of rank r is part r of rank j; once more, and all are at home.
template <typename T>
void checkExchange(Communicator &group) {
  auto ranks = static_cast<size_t>(group.size());
  auto own = static_cast<size_t>(group.rank());
  std::vector<std::vector<T>> given, got, back, expected;
  Members there, home;
  for (size_t size : kShardSizes) {
    for (auto *each : {&given, &got, &back, &expected})
      each->emplace_back(size * ranks);
    for (size_t i = 0; i < size * ranks; ++i) {
      given.back()[i] = static_cast<T>(pattern(group.rank(), i));
      expected.back()[i] = static_cast<T>(
          pattern(static_cast<int>(i / size), own * size + i % size));
    }
    there.push_back({given.back().data(), got.back().data(), size * sizeof(T)});
    home.push_back({got.back().data(), back.back().data(), size * sizeof(T)});
  }
  for (const Members &members : {there, home})
    group.wait(
        group.start({{CollectiveKind::all_to_all, "values", 0}, members}));
  for (size_t i = 0; i < given.size(); ++i) {
    requireEqual(got[i], expected[i], "all_to_all");
    requireEqual(back[i], given[i], "all_to_all twice");
  }
}

template <typename T>
void checkReductions(Communicator &group, DType dtype, Reduction reduction) {
  std::vector<std::vector<T>> fulls, shards, expected;
  Members members;
  // The pattern repeats itself.
  std::vector<T> period;
  for (size_t i = 0; i < 11; ++i) {
    std::vector<double> values;
    for (int rank = 0; rank < group.size(); ++rank)
      values.push_back(pattern(rank, i));
    period.push_back(reduced<T>(values, reduction));
  }
  auto expect = [&](size_t index) { return period[index % 11]; };
  for (size_t size : kShardSizes) {
    fulls.emplace_back(size * group.size());
    shards.emplace_back(size);
    expected.emplace_back();
    for (size_t i = 0; i < fulls.back().size(); ++i)
      fulls.back()[i] = static_cast<T>(pattern(group.rank(), i));
    for (size_t i = 0; i < size; ++i)
      expected.back().push_back(expect(group.rank() * size + i));
    members.push_back({fulls.back().data(), shards.back().data(), size, dtype});
  }
  group.wait(group.start(
      {{CollectiveKind::reduce_scatter, "values", 0}, members, reduction}));
  for (size_t i = 0; i < shards.size(); ++i)
    requireEqual(shards[i], expected[i], "reduce_scatter");

  Members all;
  for (std::vector<T> &full : fulls)
    all.push_back({full.data(), full.data(), full.size(), dtype});
  group.wait(
      group.start({{CollectiveKind::all_reduce, "values", 0}, all, reduction}));
  for (std::vector<T> &full : fulls) {
    std::vector<T> whole(full.size());
    for (size_t i = 0; i < whole.size(); ++i)
      whole[i] = expect(i);
    requireEqual(full, whole, "all_reduce");
  }
}

/// Sums of bf16 that stay in f32, of which bf16 would lose bits.
void checkWiderSums(Communicator &group) {
  std::vector<std::vector<c10::BFloat16>> fulls;
  std::vector<std::vector<float>> shards, expected;
  Members members;
  auto value = [](int rank, size_t i) {
    return c10::BFloat16(float(i % 7) + float(rank) / 128);
  };
  for (size_t size : kShardSizes) {
    fulls.emplace_back(size * group.size());
    shards.emplace_back(size);
    expected.emplace_back(size);
    for (size_t i = 0; i < fulls.back().size(); ++i)
      fulls.back()[i] = value(group.rank(), i);
    for (size_t i = 0; i < size; ++i)
      for (int rank = 0; rank < group.size(); ++rank)
        expected.back()[i] += value(rank, group.rank() * size + i);
    members.push_back({fulls.back().data(), shards.back().data(), size,
                       DType::bf16, DType::f32});
  }
  group.wait(group.start(
      {{CollectiveKind::reduce_scatter, "wider", 0}, members, Reduction::sum}));
  for (size_t i = 0; i < shards.size(); ++i)
    requireEqual(shards[i], expected[i], "reduce_scatter to f32");
}

void checkValues(Fabric &fabric) {
  auto group = fabric.createCommunicator(worldGroup(fabric, "values"));
  require(group->rank() == fabric.rank() && group->size() == fabric.worldSize(),
          "the group does not have the fabric's ranks");
  checkGather<float>(*group);
  checkGather<uint8_t>(*group);
  checkGather<int64_t>(*group);
  checkRotation<float>(*group);
  checkRotation<uint8_t>(*group);
  checkExchange<float>(*group);
  checkExchange<uint8_t>(*group);
  for (Reduction reduction : {Reduction::sum, Reduction::avg, Reduction::max}) {
    checkReductions<float>(*group, DType::f32, reduction);
    checkReductions<double>(*group, DType::f64, reduction);
    checkReductions<c10::BFloat16>(*group, DType::bf16, reduction);
    checkReductions<c10::Half>(*group, DType::f16, reduction);
  }
  if (!fabric.streams()) // devices sum while they move
    checkWiderSums(*group);
  checkReductions<int64_t>(*group, DType::i64, Reduction::sum);
  checkReductions<int32_t>(*group, DType::i32, Reduction::max);
  checkReductions<uint8_t>(*group, DType::u8, Reduction::sum);
}

/// Sums whose bits depend on the order, against the order that is promised.
void checkOrder(Fabric &fabric) {
  auto group = fabric.createCommunicator(worldGroup(fabric, "order"));
  const int size = group->size();
  const size_t shardElements = 30011;
  std::vector<std::vector<float>> all;
  for (int rank = 0; rank < size; ++rank) {
    std::mt19937 random(rank + 1);
    std::normal_distribution<float> normal;
    std::vector<float> values(shardElements * size);
    for (float &value : values)
      value = normal(random) * std::exp(3 * normal(random));
    all.push_back(std::move(values));
  }
  std::vector<float> expected = all[0];
  for (int rank = 1; rank < size; ++rank)
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] += all[rank][i];
  for (float &value : expected)
    value /= static_cast<float>(size);

  for (int repetition = 0; repetition < 20; ++repetition) {
    std::vector<float> full = all[group->rank()], shard(shardElements);
    Member member{full.data(), shard.data(), shardElements, DType::f32};
    group->wait(group->start({{CollectiveKind::reduce_scatter, "order", 0},
                              {&member, 1},
                              Reduction::avg}));
    auto first = expected.begin() + group->rank() * shardElements;
    requireEqual(shard, std::vector<float>(first, first + shardElements),
                 "reduce_scatter, in rank order,");
    Member whole{full.data(), full.data(), full.size(), DType::f32};
    group->wait(group->start({{CollectiveKind::all_reduce, "order", 0},
                              {&whole, 1},
                              Reduction::avg}));
    requireEqual(full, expected, "all_reduce, in rank order,");
  }
}

/// The shard may lie at its own place in the full tensor.
void checkInPlace(Fabric &fabric) {
  auto group = fabric.createCommunicator(worldGroup(fabric, "in place"));
  for (size_t size : {size_t(5), size_t(50000)}) {
    std::vector<float> full(size * group->size(), -1);
    float *own = full.data() + group->rank() * size;
    for (size_t i = 0; i < size; ++i)
      own[i] = static_cast<float>(pattern(group->rank(), i));
    Member gather{own, full.data(), size * sizeof(float)};
    group->wait(group->start(
        {{CollectiveKind::all_gather, "in place", 0}, {&gather, 1}}));
    for (int rank = 0; rank < group->size(); ++rank)
      for (size_t i = 0; i < size; ++i)
        require(full[rank * size + i] == static_cast<float>(pattern(rank, i)),
                "all_gather in place gave other values");
    Member reduce{full.data(), own, size, DType::f32};
    group->wait(group->start({{CollectiveKind::reduce_scatter, "in place", 0},
                              {&reduce, 1},
                              Reduction::sum}));
    for (size_t i = 0; i < size; ++i)
      require(own[i] ==
                  static_cast<float>(group->size() * pattern(group->rank(), i)),
              "reduce_scatter in place gave other values");
  }
}

/// Many buckets on two streams at once; ranks wait in different orders.
void checkInFlight(Fabric &fabric) {
  auto gathers = fabric.createCommunicator(worldGroup(fabric, "gather"));
  auto reductions = fabric.createCommunicator(worldGroup(fabric, "reduce"));
  const int size = fabric.worldSize(), rank = fabric.rank();
  constexpr int kBuckets = 24;
  auto elements = [](int bucket) { return size_t(1) + bucket * 997; };
  std::vector<std::vector<float>> shards, fulls, sums, parts;
  std::vector<Communicator::Ticket> gathered, reduced;
  for (int bucket = 0; bucket < kBuckets; ++bucket) {
    size_t count = elements(bucket);
    shards.emplace_back(count);
    fulls.emplace_back(count * size);
    sums.emplace_back(count * size);
    parts.emplace_back(count);
    for (size_t i = 0; i < count; ++i)
      shards.back()[i] = static_cast<float>(pattern(rank, i, bucket));
    for (size_t i = 0; i < count * size; ++i)
      sums.back()[i] = static_cast<float>(pattern(rank, i, bucket));
    Member gather{shards.back().data(), fulls.back().data(),
                  count * sizeof(float)};
    Member reduce{sums.back().data(), parts.back().data(), count, DType::f32};
    gathered.push_back(gathers->start(
        {{CollectiveKind::all_gather, "many", 0}, {&gather, 1}}));
    reduced.push_back(
        reductions->start({{CollectiveKind::reduce_scatter, "many", 0},
                           {&reduce, 1},
                           Reduction::sum}));
  }
  if (rank % 2)
    for (auto ticket : gathered)
      gathers->wait(ticket);
  for (auto ticket = reduced.rbegin(); ticket != reduced.rend(); ++ticket)
    reductions->wait(*ticket);
  if (rank % 2 == 0)
    for (auto ticket : gathered)
      gathers->wait(ticket);
  for (int bucket = 0; bucket < kBuckets; ++bucket) {
    size_t count = elements(bucket);
    for (int other = 0; other < size; ++other)
      for (size_t i = 0; i < count; ++i)
        require(fulls[bucket][other * count + i] ==
                    static_cast<float>(pattern(other, i, bucket)),
                "one of many all_gathers gave other values");
    for (size_t i = 0; i < count; ++i) {
      int sum = 0;
      for (int other = 0; other < size; ++other)
        sum += pattern(other, rank * count + i, bucket);
      require(parts[bucket][i] == static_cast<float>(sum),
              "one of many reduce_scatters gave other values");
    }
  }
}

/// A thousand steps in which ranks come at random times and write their memory
/// again as soon as it is theirs.
void checkDelays(Fabric &fabric) {
  auto gathers = fabric.createCommunicator(worldGroup(fabric, "gather"));
  auto reductions = fabric.createCommunicator(worldGroup(fabric, "reduce"));
  const int size = fabric.worldSize(), rank = fabric.rank();
  const size_t count = 300;
  std::vector<float> shard(count), full(count * size), part(count);
  std::mt19937 random(rank);
  auto linger = [&] {
    if (random() % 8 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
  };
  for (int step = 0; step < 1000; ++step) {
    for (size_t i = 0; i < count; ++i)
      shard[i] = static_cast<float>(step * size + rank);
    Member gather{shard.data(), full.data(), count * sizeof(float)};
    auto ticket = gathers->start(
        {{CollectiveKind::all_gather, "delays", 0}, {&gather, 1}});
    linger();
    gathers->wait(ticket);
    std::fill(shard.begin(), shard.end(), -1.0f);
    linger();
    for (int other = 0; other < size; ++other)
      for (size_t i = 0; i < count; ++i)
        require(full[other * count + i] ==
                    static_cast<float>(step * size + other),
                "all_gather after a delay gave other values");
    Member reduce{full.data(), part.data(), count, DType::f32};
    ticket = reductions->start({{CollectiveKind::reduce_scatter, "delays", 0},
                                {&reduce, 1},
                                Reduction::avg});
    linger();
    reductions->wait(ticket);
    std::fill(full.begin(), full.end(), -1.0f);
    for (float value : part)
      require(value == static_cast<float>(step * size + rank),
              "reduce_scatter after a delay gave other values");
    float metrics[2] = {static_cast<float>(rank), static_cast<float>(step)};
    Member all{metrics, metrics, 2, DType::f32};
    ticket = reductions->start({{CollectiveKind::all_reduce, "metrics", 0},
                                {&all, 1},
                                Reduction::sum});
    reductions->wait(ticket);
    require(metrics[0] == static_cast<float>(size * (size - 1) / 2) &&
                metrics[1] == static_cast<float>(size * step),
            "all_reduce after a delay gave other values");
  }
}

void checkSubgroups(Fabric &fabric) {
  const int rank = fabric.rank();
  GroupRanks half{rank % 2 ? "odd" : "even", {}};
  for (int other = rank % 2; other < fabric.worldSize(); other += 2)
    half.ranks.push_back(other);
  auto group = fabric.createCommunicator(half);
  // A second one of the same name is another one.
  auto again = fabric.createCommunicator(half);
  require(group->rank() == rank / 2 &&
              group->size() == static_cast<int>(half.ranks.size()),
          "the place in a group is wrong");
  for (Communicator *each : {group.get(), again.get()}) {
    int64_t value = rank + 1, sum = 0;
    Member member{&value, &value, 1, DType::i64};
    each->wait(each->start({{CollectiveKind::all_reduce, "half", 0},
                            {&member, 1},
                            Reduction::sum}));
    for (int other : half.ranks)
      sum += other + 1;
    require(value == sum, "all_reduce in a group gave another value");
  }
}

void checkExchange(Fabric &fabric) {
  for (int round = 0; round < 3; ++round) {
    std::string key = "round " + std::to_string(round);
    auto values = fabric.exchange(key, "from " + std::to_string(fabric.rank()));
    require(static_cast<int>(values.size()) == fabric.worldSize(),
            "exchange gave another number of values");
    for (int rank = 0; rank < fabric.worldSize(); ++rank)
      require(values[rank] == "from " + std::to_string(rank),
              "exchange gave another value");
  }
}

/// Two threads of each rank, of which some wait while others come.
void checkThreads(Fabric &fabric) {
  auto exchange = [&](const std::string &key) {
    for (int round = 0; round < 3; ++round) {
      auto values = fabric.exchange(key + std::to_string(round),
                                    key + std::to_string(fabric.rank()));
      for (int rank = 0; rank < fabric.worldSize(); ++rank)
        if (values[rank] != key + std::to_string(rank))
          throw std::runtime_error("exchange gave another thread's value");
    }
  };
  bool isEven = fabric.rank() % 2 == 0;
  auto other =
      std::async(std::launch::async, [&] { exchange(isEven ? "one" : "two"); });
  exchange(isEven ? "two" : "one");
  other.get();
}

/// Staging memory is reused from step to step.
void checkStaging(Fabric &fabric) {
  auto group = fabric.createCommunicator(worldGroup(fabric, "staging"));
  size_t after = 0;
  for (int step = 0; step < 5; ++step) {
    std::vector<float> full(60000 * group->size()), shard(60000);
    Member members[] = {
        {full.data(), shard.data(), 60000, DType::f32},
        {full.data(), shard.data(), 10, DType::f32},
    };
    group->wait(group->start({{CollectiveKind::reduce_scatter, "staging", 0},
                              {members, 1},
                              Reduction::sum}));
    group->wait(group->start({{CollectiveKind::reduce_scatter, "small", 0},
                              {members + 1, 1},
                              Reduction::sum}));
    require(step == 0 || group->stagingBytes() == after,
            "staging memory grew after the first step");
    after = group->stagingBytes();
  }
}

/// Rounds in which all take part, until ranks ask to stop: after the same one.
void checkStop(Fabric &fabric) {
  auto group = fabric.createCommunicator(worldGroup(fabric, "rounds"));
  auto runUntil = [&](auto wants) {
    uint64_t rounds = 0;
    for (; rounds < 1000; ++rounds) {
      if (wants(rounds) && !fabric.stopAfter())
        fabric.requestStop(rounds);
      if (auto after = fabric.stopAfter(); after && *after <= rounds)
        break;
      float value = 1;
      Member member{&value, &value, 1, DType::f32};
      group->wait(group->start({{CollectiveKind::all_reduce, "round", rounds},
                                {&member, 1},
                                Reduction::sum}));
    }
    return rounds;
  };
  // The last rank asks, and its right neighbour a round later.
  int last = fabric.worldSize() - 1;
  uint64_t rounds = runUntil([&](uint64_t round) {
    return (fabric.rank() == last && round >= 5) ||
           (fabric.rank() == 0 && round >= 6);
  });
  require(rounds >= 5 && rounds < 10,
          "stopped after " + std::to_string(rounds) + " rounds");
  for (const std::string &each :
       fabric.exchange("rounds", std::to_string(rounds)))
    require(each == std::to_string(rounds),
            "ranks stopped after " + each + " and after " +
                std::to_string(rounds) + " rounds");
}

} // namespace

const std::vector<Check> &fsdp::test::conformanceChecks() {
  static const std::vector<Check> all = {
      {"Values", checkValues},     {"Order", checkOrder},
      {"InPlace", checkInPlace},   {"InFlight", checkInFlight},
      {"Delays", checkDelays},     {"Subgroups", checkSubgroups},
      {"Exchange", checkExchange}, {"Threads", checkThreads},
      {"Staging", checkStaging},   {"Stop", checkStop},
  };
  return all;
}
