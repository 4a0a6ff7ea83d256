//===- MeasuredTest.cpp - Measurements go before models -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/ComputeModel.h"
#include "simulate/Simulator.h"
#include "support/Error.h"
#include "test/unit/simulate/SmallPlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

using namespace fsdp;
using fsdp::test::plainCluster;
using fsdp::test::SmallPlan;
using testing::HasSubstr;

namespace {

constexpr double kTiny = 1e-9;

constexpr const char *kHost = R"(name: host
ranks_per_node: 8
device: {kind: cpu, memory: 1.0e9, bandwidth: 1.0e9, vector_rate: 1.0e9, cores: 2}
matmul:
  rates: {f32: 1.0e9}
  seconds: 1.0e-6
  measured:
    - dtype: f32
      seconds: [[1, 1, 1, 2.0e-6], [1, 1, 100, 20.0e-6]]
    - dtype: f32
      transposed: true
      seconds: [[1, 1, 1, 4.0e-6]]
operators:
  silu: [[100, 1.0e-6], [200, 3.0e-6]]
  elementwise: [[100, 5.0e-6], [200, 6.0e-6]]
network:
  kind: linear
  link: 1.0e9
  measured:
    - kind: all_gather
      ranks: 2
      seconds: [[1.0e6, 3.0e-3]]
      start: [[1.0e6, 1.0e-3]]
      finish: [[1.0e6, 2.0e-3]]
crowded:
  - ranks: 2
    operators:
      silu: [[100, 8.0e-6]]
)";

std::string refusal(const std::string &text) {
  try {
    Cluster::parse(text, "c.yaml");
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

std::string with(std::string text, const std::string &from,
                 const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

Work elementwise(std::string_view op, double bytes) {
  Work work;
  work.kind = WorkKind::elementwise;
  work.op = op;
  work.bytes = bytes;
  work.flops = bytes / 4;
  work.kernels = 1;
  return work;
}

Work product(int64_t m, int64_t n, int64_t k) {
  Work work;
  work.kind = WorkKind::matmul;
  work.matmul = {1, m, n, k};
  work.flops = 2.0 * double(m * n * k);
  work.kernels = 1;
  return work;
}

TEST(Measured, OperatorsTakeWhatTheyTook) {
  Cluster cluster = Cluster::parse(kHost, "c.yaml");
  ComputeModel model(cluster);
  EXPECT_NEAR(model.seconds(elementwise("silu", 150)), 2e-6, kTiny);
  // On a straight line beyond the last.
  EXPECT_NEAR(model.seconds(elementwise("silu", 300)), 5e-6, kTiny);
}

TEST(Measured, TensorsOfAListComeOneAfterAnother) {
  Cluster cluster = Cluster::parse(kHost, "c.yaml");
  ComputeModel model(cluster);
  Work list = elementwise("silu", 300);
  list.tensors = 2;
  // Together as slow as one of 300.
  EXPECT_NEAR(model.seconds(list), 5e-6, kTiny);
  list.tensors = 8;
  EXPECT_NEAR(model.seconds(list), 8 * 1e-6, kTiny);
  list = elementwise("other", 800);
  list.tensors = 8;
  EXPECT_NEAR(model.seconds(list), 8 * 5e-6, kTiny);
}

TEST(Measured, OthersTakeWhatTheirKindTakes) {
  Cluster cluster = Cluster::parse(kHost, "c.yaml");
  ComputeModel model(cluster);
  EXPECT_NEAR(model.seconds(elementwise("other", 200)), 6e-6, kTiny);
  // Its own function beside.
  Work heavy = elementwise("heavy", 200);
  heavy.flops = 1050;
  EXPECT_NEAR(model.seconds(heavy), 6e-6 + 1000e-9, kTiny);
}

TEST(Measured, ProductsLieBetweenThoseThatWereMeasured) {
  Cluster cluster = Cluster::parse(kHost, "c.yaml");
  ComputeModel model(cluster);
  EXPECT_NEAR(model.seconds(product(1, 1, 1)), 2e-6, kTiny);
  EXPECT_NEAR(model.seconds(product(1, 1, 10)), std::sqrt(2.0 * 20) * 1e-6,
              kTiny);
  EXPECT_NEAR(model.seconds(product(1, 1, 200)), 40e-6, kTiny);
  EXPECT_NEAR(model.seconds(product(3, 1, 100)), 60e-6, kTiny);
  Work batch = product(1, 1, 1);
  batch.matmul.batch = 5;
  EXPECT_NEAR(model.seconds(batch), 1e-6 + 5 * 1e-6, kTiny);
  Work transposed = product(1, 1, 1);
  transposed.isTransposed = true;
  EXPECT_NEAR(model.seconds(transposed), 4e-6, kTiny);
}

TEST(Measured, CrowdedDevicesAreSlower) {
  Cluster cluster = Cluster::parse(kHost, "c.yaml");
  Work work = elementwise("silu", 100);
  for (auto [ranks, seconds] : {std::pair(1, 1e-6), {2, 8e-6}, {4, 8e-6}}) {
    Cluster own = cluster.withRanks(ranks);
    EXPECT_NEAR(ComputeModel(own).seconds(work), seconds, kTiny) << ranks;
  }
}

TEST(Measured, RefusesWhatIsNoTable) {
  EXPECT_THAT(refusal(with(kHost, "[1, 1, 100, 20.0e-6]", "[1, 2, 100, 1]")),
              HasSubstr("each combination of rows, columns and depths once"));
  EXPECT_THAT(refusal(with(kHost, "[200, 3.0e-6]", "[100, 3.0e-6]")),
              HasSubstr("expected ascending sizes"));
  EXPECT_THAT(refusal(with(kHost, "transposed: true", "upside: true")),
              HasSubstr("'upside' is no key of measured products"));
  EXPECT_THAT(refusal(with(kHost, "    operators:", "    network:")),
              HasSubstr("'network' is no key of 'crowded'"));
  EXPECT_THAT(refusal(with(kHost, "finish:", "end:")),
              HasSubstr("'end' is no key of a measured collective"));
}

/// Starts and waits have work of their own, which kernels wait for.
TEST(Measured, StartsAndWaitsTakeTheThreadThatComputes) {
  SmallPlan small;
  uint32_t gather = small.gather(0.5);
  small.kernel(4);
  small.wait(gather);
  small.kernel(1);
  Cluster cluster = plainCluster();
  cluster.network.measured = Cluster::parse(kHost, "c.yaml").network.measured;
  PredictedProgram program = simulate(small.plan, cluster).programs.front();
  // The start, the kernel beside the move, the rest of the wait, the kernel.
  EXPECT_NEAR(program.seconds, 1e-3 + 4e-3 + 2e-3 + 1e-3, kTiny);
  EXPECT_NEAR(program.compute, 5e-3, kTiny);
  EXPECT_NEAR(program.exposed, 3e-3, kTiny);
  ASSERT_EQ(program.transfers.size(), 1u);
  const PredictedTransfer &transfer = program.transfers[0];
  EXPECT_NEAR(transfer.given, 1e-3, kTiny);
  EXPECT_NEAR(transfer.end, 7e-3, kTiny);
  EXPECT_NEAR(transfer.exposed(), 3e-3, kTiny);
}

/// What gloo packs is one message, of whose cost each further tensor else has
/// its own.
TEST(Measured, SmallTensorsOfATransferTravelTogether) {
  std::string finish = "finish: [[1.0e6, 2.0e-3]]";
  std::string text = with(kHost, finish, finish + "\n      tensor: 0.25e-3");
  Cluster cluster = plainCluster();
  cluster.network.measured = Cluster::parse(text, "c.yaml").network.measured;
  auto starting = [&](bool isGloo, const std::vector<uint64_t> &further) {
    SmallPlan small;
    uint32_t future = small.gather(0.5);
    for (uint64_t bytes : further) {
      uint32_t shard = small.state(bytes), whole = small.slot(2 * bytes);
      auto *gather = small.program().instructions.back()->body.AsTransfer();
      gather->inputs.push_back(shard);
      gather->outputs.push_back(whole);
    }
    small.wait(future);
    cluster.network.staging = isGloo;
    return simulate(small.plan, cluster).programs.front().transfers[0].given;
  };
  EXPECT_NEAR(starting(true, {}), 1e-3, kTiny);
  EXPECT_NEAR(starting(true, {1024}), 1.25e-3, kTiny);
  EXPECT_NEAR(starting(true, {1024, 4096, 8}), 1.25e-3, kTiny);
  EXPECT_NEAR(starting(true, {65536, 1024, 4096}), 1.5e-3, kTiny);
  EXPECT_NEAR(starting(false, {1024, 4096, 8}), 1.75e-3, kTiny);
}

/// A transfer of a host waits for the cores that kernels have, and takes some
/// of their time.
TEST(Measured, TransfersTakeLongerBesideKernelsOfTheSameCores) {
  std::string finish = "finish: [[1.0e6, 2.0e-3]]";
  std::string text = with(kHost, finish,
                          finish + "\n      beside: [[1.0e6, 10.0e-3]]"
                                   "\n      lost: [[1.0e6, 2.5e-3]]");
  Cluster cluster = plainCluster();
  cluster.network.measured = Cluster::parse(text, "c.yaml").network.measured;
  auto seconds = [&](double kernel, bool isHost) {
    SmallPlan small;
    uint32_t gather = small.gather(0.5);
    small.kernel(kernel);
    small.wait(gather);
    small.kernel(1);
    if (isHost)
      small.plan.training->device = "cpu";
    cluster.device.isHost = isHost;
    cluster.device.cores = isHost ? 2 : 0;
    return simulate(small.plan, cluster).seconds;
  };
  // Three quarters of their speed beside a transfer that comes to 8/15 then,
  // and goes on in the wait.
  EXPECT_NEAR(seconds(4, true), 1e-3 + 4e-3 / 0.75 + 3e-3 * 7 / 15 + 3e-3,
              kTiny);
  // What is left of a kernel once all has come is as fast as ever.
  EXPECT_NEAR(seconds(20, true), 1e-3 + 20e-3 + 2.5e-3 + 3e-3, kTiny);
  // A device's kernels have cores of their own.
  EXPECT_NEAR(seconds(20, false), 1e-3 + 20e-3 + 3e-3, kTiny);
}

/// Ranks that take turns on cores do not come to a wait at once; how far apart
/// they are grows with the time since they met, up to what was measured.
TEST(Measured, RanksThatComeApartWaitForOneAnother) {
  std::string text =
      with(kHost, "link: 1.0e9",
           "link: 1.0e9\n  skew:\n"
           "    - {ranks: 2, seconds: [[0, 0], [10.0e-3, 2.0e-3]]}");
  Cluster cluster = plainCluster();
  cluster.network = Cluster::parse(text, "c.yaml").network;
  auto predict = [&](double kernel) {
    SmallPlan small;
    uint32_t first = small.gather(0.5), second = small.gather(0.5);
    small.kernel(kernel);
    small.wait(first);
    small.wait(second);
    small.kernel(5);
    small.wait(small.gather(0.5));
    return simulate(small.plan, cluster).programs.front();
  };
  // Two starts and the kernel; the first wait, and the second right behind it;
  // a kernel, and a gather with nothing beside, 9 ms after that.
  PredictedProgram program = predict(6);
  EXPECT_NEAR(program.seconds,
              2e-3 + 6e-3 + (1.6e-3 + 2e-3) + 2e-3 + 5e-3 + 1e-3 + 3e-3 +
                  (1.8e-3 + 2e-3),
              kTiny);
  EXPECT_NEAR(program.compute, 11e-3, kTiny);
  EXPECT_NEAR(program.transfers[0].exposed(), 1e-3 + 3.6e-3, kTiny);
  EXPECT_NEAR(program.transfers[1].exposed(), 1e-3 + 2e-3, kTiny);
  // No more than what was measured.
  EXPECT_NEAR(predict(30).seconds - program.seconds, 24e-3 + 0.4e-3, kTiny);
  // Copies to the host are waited for by one rank.
  SmallPlan small;
  small.kernel(6);
  uint32_t made = small.slot(4000000), kept = small.state(4000000);
  small.make(made);
  small.wait(small.download(made, kept));
  EXPECT_EQ(simulate(small.plan, cluster).seconds,
            simulate(small.plan, plainCluster()).seconds);
}

TEST(Measured, SkewIsOfAsManyRanksOrFewer) {
  std::string text =
      with(kHost, "link: 1.0e9",
           "link: 1.0e9\n  skew:\n    - {ranks: 2, seconds: [[1.0, 3.0]]}\n"
           "    - {ranks: 4, seconds: [[1.0, 5.0]]}");
  Cluster cluster = Cluster::parse(text, "c.yaml");
  EXPECT_TRUE(cluster.skewOf(1).empty());
  EXPECT_EQ(cluster.skewOf(3).within(9), 3);
  EXPECT_EQ(cluster.skewOf(4).within(9), 5);
  EXPECT_THAT(refusal(with(text, "ranks: 4, seconds", "ranks: 1, seconds")),
              HasSubstr("'skew': expected ascending ranks"));
  EXPECT_THAT(refusal(with(text, "ranks: 4, ", "")),
              HasSubstr("'skew': each needs ranks and seconds"));
  EXPECT_THAT(refusal(with(text, "ranks: 4, ", "rank: 4, ")),
              HasSubstr("'rank' is no key of 'skew'; expected a list of maps"));
  EXPECT_THAT(refusal(with(text, "{ranks: 4, seconds: [[1.0, 5.0]]}", "4")),
              HasSubstr("'skew': expected a list of maps"));
}

TEST(Measured, WaitsThatComeEarlyWaitFirst) {
  SmallPlan small;
  uint32_t gather = small.gather(0.5);
  small.kernel(1);
  small.wait(gather);
  Cluster cluster = plainCluster();
  cluster.network.measured = Cluster::parse(kHost, "c.yaml").network.measured;
  PredictedProgram program = simulate(small.plan, cluster).programs.front();
  EXPECT_NEAR(program.seconds, 1e-3 + 3e-3 + 2e-3, kTiny);
  EXPECT_NEAR(program.transfers[0].exposed(), 1e-3 + 2e-3 + 2e-3, kTiny);
}

/// What a profile has of the plan's kernels and transfers.
TEST(Measured, ProfilesGoBeforeAllElse) {
  SmallPlan small;
  uint32_t gather = small.gather(1);
  small.kernel(4);
  small.wait(gather);
  small.kernel(1);
  std::string path = testing::TempDir() + "measured-trace.json";
  std::ofstream(path) << R"({"traceEvents": [
    {"ph": "X", "cat": "compute", "name": "copy", "dur": 7000,
     "args": {"operands": "f32[500000]"}},
    {"ph": "X", "cat": "compute", "name": "copy", "dur": 9000,
     "args": {"operands": "f32[500000]"}},
    {"ph": "X", "cat": "compute", "name": "copy", "dur": 8000,
     "args": {"operands": "f32[500000]"}},
    {"ph": "X", "cat": "transfer", "name": "all_gather layer", "dur": 9000,
     "args": {"collective": "all_gather", "bytes": 2000000, "ranks": 2,
              "start_us": 2000, "exposed_us": 1000}}
  ], "fsdp": {}})";
  Cluster cluster = plainCluster();
  cluster.profile = std::make_shared<MeasuredTimes>(MeasuredTimes::read(path));
  PredictedProgram program = simulate(small.plan, cluster).programs.front();
  // The first kernel is known, in the median; the second is another.
  ASSERT_EQ(program.kernels.size(), 2u);
  EXPECT_NEAR(program.kernels[0].end - program.kernels[0].begin, 8e-3, kTiny);
  EXPECT_NEAR(program.kernels[1].end - program.kernels[1].begin, 1e-3, kTiny);
  EXPECT_NEAR(program.transfers[0].alone, 6e-3, kTiny);
  EXPECT_NEAR(program.seconds, 2e-3 + 8e-3 + 1e-3 + 1e-3, kTiny);
}

/// A GPU lists when transfers moved and kernels ran, wherever waits were.
TEST(Measured, ProfilesOfGpusGoBeforeAllElse) {
  SmallPlan small;
  uint32_t gather = small.gather(1);
  small.kernel(4);
  small.wait(gather);
  std::string path = testing::TempDir() + "gpu-trace.json";
  std::ofstream(path) << R"({"traceEvents": [
    {"ph": "M", "pid": 0, "name": "process_labels",
     "args": {"labels": "cuda:sm_90"}},
    {"ph": "X", "cat": "compute", "name": "copy", "dur": 7000,
     "args": {"operands": "f32[500000]", "busy_us": 5000}},
    {"ph": "X", "cat": "transfer", "name": "all_gather layer", "dur": 6000,
     "args": {"collective": "all_gather", "bytes": 2000000, "ranks": 2,
              "start_us": 0, "exposed_us": 1000, "moves_us": 6000}},
    {"ph": "X", "cat": "transfer", "name": "all_gather layer", "dur": 9000,
     "args": {"collective": "all_gather", "bytes": 2000000, "ranks": 2,
              "start_us": 0, "exposed_us": 4000, "moves_us": 9000}}
  ], "fsdp": {}})";
  Cluster cluster = plainCluster();
  cluster.profile = std::make_shared<MeasuredTimes>(MeasuredTimes::read(path));
  PredictedProgram program = simulate(small.plan, cluster).programs.front();
  ASSERT_EQ(program.kernels.size(), 1u);
  EXPECT_NEAR(program.kernels[0].end - program.kernels[0].begin, 5e-3, kTiny);
  // The second rank's waited for the first.
  EXPECT_NEAR(program.transfers[0].alone, 6e-3, kTiny);
  EXPECT_NEAR(program.seconds, 6e-3, kTiny);
  EXPECT_EQ(Cluster::load("h100x8", path).profile->device(), "cuda:sm_90");
  try {
    Cluster::load("cpu", path);
    FAIL() << "expected an error";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::ProfileInvalid);
    EXPECT_THAT(error.what(), HasSubstr("expected a cluster of GPUs"));
  }
}

TEST(Measured, TimesOfAHostAreRefusedForGpus) {
  std::string path = testing::TempDir() + "host-trace.json";
  std::ofstream(path) << R"({"traceEvents": [
    {"ph": "X", "cat": "compute", "name": "copy", "dur": 7000,
     "args": {"operands": "f32[4]"}}]})";
  EXPECT_NO_THROW(Cluster::load("cpu", path));
  EXPECT_THROW(Cluster::load("h100x8", path), Error);
}

TEST(Measured, RefusesWhatIsNoProfile) {
  std::string path = testing::TempDir() + "no-trace.json";
  for (const char *text : {"", "{}", R"({"traceEvents": [], "fsdp": {}})"}) {
    std::ofstream(path) << text;
    EXPECT_THROW(MeasuredTimes::read(path), Error) << text;
  }
}

} // namespace
