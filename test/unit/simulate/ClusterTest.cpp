//===- ClusterTest.cpp - The hardware that a step is predicted for --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/Cluster.h"

#include "support/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace fsdp;
using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

namespace {

/// All that is required, each key on a line of its own: name on the first.
constexpr std::string_view kLeast = R"(name: small
ranks_per_node: 2
device:
  kind: cuda
  memory: 1.0e9
  bandwidth: 1.0e9
  vector_rate: 1.0e12
matmul:
  rates: {f32: 1.0e12}
network:
  kind: linear
  link: 1.0e9
)";

/// kLeast with `to` in place of `from`.
std::string with(std::string_view from, std::string_view to) {
  std::string text(kLeast);
  size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

/// The error's id and message.
std::string refusal(const std::string &text) {
  try {
    Cluster::parse(text, "c.yaml");
  } catch (const Error &error) {
    return std::string(getErrorInfo(error.id()).id) + " " + error.what();
  }
  return "";
}

TEST(Cluster, HasBuiltInOnesThatParse) {
  EXPECT_THAT(Cluster::names(), Contains("h100x8"));
  EXPECT_THAT(Cluster::names(), Contains("cpu"));
  for (std::string_view name : Cluster::names()) {
    Cluster cluster = Cluster::load(std::string(name));
    EXPECT_EQ(cluster.name, name);
    EXPECT_EQ(cluster.device.isHost, name.starts_with("cpu"));
    EXPECT_GT(cluster.device.memory, cluster.device.reserved);
    EXPECT_FALSE(cluster.device.matmul.rates.empty());
    EXPECT_GT(cluster.network.link, 1e6);
  }
}

TEST(Cluster, NeedsNoMoreThanItsRequiredKeys) {
  Cluster cluster = Cluster::parse(std::string(kLeast), "c.yaml");
  EXPECT_EQ(cluster.name, "small");
  EXPECT_EQ(cluster.ranksPerNode, 2);
  EXPECT_FALSE(cluster.device.isHost);
  EXPECT_EQ(cluster.device.memory, 1e9);
  EXPECT_EQ(cluster.device.matmul.rates.at(plan::DType::f32), 1e12);
  EXPECT_THAT(cluster.device.matmul.tiles, SizeIs(1));
  EXPECT_FALSE(cluster.network.isNccl);
}

TEST(Cluster, ReadsTilesAndMeasurements) {
  Cluster cluster = Cluster::parse(
      with("network:\n", "  tiles: [[128, 256, 1.0], [64, 64, 0.5]]\nnetwork:\n"
                         "  measured:\n"
                         "    - {kind: reduce_scatter, nodes: 2, ranks: 16, "
                         "seconds: [[1.0e6, 1.0e-3], [2.0e6, 3.0e-3]]}\n"),
      "c.yaml");
  ASSERT_THAT(cluster.device.matmul.tiles, SizeIs(2));
  EXPECT_EQ(cluster.device.matmul.tiles[1].efficiency, 0.5);
  ASSERT_THAT(cluster.network.measured, SizeIs(1));
  const MeasuredCollective &measured = cluster.network.measured[0];
  EXPECT_EQ(measured.kind, CollectiveKind::reduce_scatter);
  EXPECT_EQ(measured.nodes, 2);
  EXPECT_EQ(measured.ranks, 16);
  EXPECT_DOUBLE_EQ(measured.seconds.at(1.5e6), 2e-3);
}

/// "As that one, but 24 GB".
TEST(Cluster, IsAsItsBaseButForWhatItSays) {
  Cluster base = Cluster::load("a6000");
  Cluster cluster = Cluster::parse("base: a6000\nmemory: 24 GB\n"
                                   "ranks_per_node: 1\n"
                                   "device: {bandwidth: 0.27e12}\n",
                                   "mine.yaml");
  EXPECT_EQ(cluster.name, "a6000 as in mine.yaml");
  EXPECT_EQ(cluster.device.memory, 24e9);
  EXPECT_EQ(cluster.device.bandwidth, 0.27e12);
  EXPECT_EQ(cluster.ranksPerNode, 1);
  EXPECT_EQ(cluster.device.matmul.rates, base.device.matmul.rates);
  EXPECT_EQ(cluster.device.capability, 86);
  EXPECT_EQ(cluster.network.link, base.network.link);
  EXPECT_EQ(base.device.memory, 51e9);
  EXPECT_EQ(Cluster::parse("base: a6000\nname: mine\n", "c.yaml").name, "mine");
  EXPECT_THAT(refusal("base: a600\n"),
              StartsWith("E044 c.yaml:1:7: 'base': expected one of a100-40gb"));
  EXPECT_THAT(refusal("base: a6000\nmemory: much\n"),
              StartsWith("E044 c.yaml:2:9: 'memory': expected bytes"));
  EXPECT_THAT(refusal("base: a6000\ncolour: red\n"),
              StartsWith("E042 c.yaml:2:1: 'colour' is no key of a cluster"));
  EXPECT_THAT(refusal("memory: 24 GB\n"),
              StartsWith("E042 c.yaml:1:1: 'memory' is no key of a cluster"));
}

TEST(Cluster, ReadsArchitectures) {
  EXPECT_EQ(
      Cluster::parse(with("kind: cuda", "kind: cuda\n  arch: sm_80"), "c.yaml")
          .device.capability,
      80);
  EXPECT_THAT(refusal(with("kind: cuda", "kind: cuda\n  arch: ampere")),
              StartsWith("E044 c.yaml:5:9: 'arch': expected"));
}

TEST(Cluster, NamesThePlaceOfWhatIsMissing) {
  EXPECT_THAT(refusal(with("name: small\n", "")),
              StartsWith("E046 c.yaml:1:1: a cluster needs 'name'"));
  EXPECT_THAT(refusal(with("  memory: 1.0e9\n", "")),
              StartsWith("E046 c.yaml:4:3: a cluster needs 'device.memory'; "
                         "docs/Simulate.md says what it is"));
  EXPECT_THAT(refusal(with("network:\n  kind: linear\n  link: 1.0e9\n", "")),
              StartsWith("E046 c.yaml:1:1: a cluster needs 'network.kind'"));
  EXPECT_THAT(refusal(with("kind: cuda", "kind: cpu")),
              StartsWith("E046 c.yaml:4:3: a device of kind cpu needs "
                         "'device.cores'"));
}

TEST(Cluster, NamesThePlaceOfUnknownKeys) {
  EXPECT_THAT(refusal(with("  bandwidth:", "  bandwith:")),
              StartsWith("E042 c.yaml:6:3: 'bandwith' is no key of a cluster's "
                         "device; did you mean 'bandwidth'?"));
  EXPECT_THAT(refusal(with("network:", "networks:")),
              StartsWith("E042 c.yaml:10:1: 'networks' is no key of a cluster; "
                         "did you mean 'network'?"));
  EXPECT_THAT(refusal(with("network:", "colour: red\nnetwork:")),
              StartsWith("E042 c.yaml:10:1: 'colour' is no key of a cluster; "
                         "docs/Simulate.md lists them"));
  EXPECT_THAT(
      refusal(with("network:\n", "network:\n  measured: [{sort: 1}]\n")),
      StartsWith("E042 c.yaml:11:15: 'sort' is no key of a measured "
                 "collective; expected kind, nodes, ranks, seconds"));
}

TEST(Cluster, NamesThePlaceOfWrongTypes) {
  EXPECT_THAT(refusal(""), StartsWith("E043 c.yaml"));
  EXPECT_THAT(refusal("[1, 2]"),
              StartsWith("E043 c.yaml:1:1: 'cluster': expected a map, found a "
                         "list"));
  EXPECT_THAT(refusal(with("device:\n", "device: 3\nx:\n")),
              StartsWith("E043 c.yaml:3:9: 'device': expected a map, found the "
                         "number 3"));
  EXPECT_THAT(refusal(with("memory: 1.0e9", "memory: 80 pieces")),
              StartsWith("E044 c.yaml:5:11: 'memory': expected bytes"));
  EXPECT_THAT(refusal(with("ranks_per_node: 2", "ranks_per_node: 1.5")),
              StartsWith("E043 c.yaml:2:17: 'ranks_per_node': expected a whole "
                         "number"));
  EXPECT_THAT(refusal(with("{f32: 1.0e12}", "1.0e12")),
              StartsWith("E043 c.yaml:9:10: 'rates': expected a map from "
                         "element types to rates"));
  EXPECT_THAT(refusal(with("network:", "  tiles: [[1, 2]]\nnetwork:")),
              StartsWith("E043 c.yaml:10:11: 'tiles': expected a list of lists "
                         "of 3 numbers"));
  EXPECT_THAT(refusal(with("network:\n", "network:\n  measured: 1\n")),
              StartsWith("E043 c.yaml:11:13: 'measured': expected a list of "
                         "measured collectives"));
  EXPECT_THAT(refusal(with("network:\n", "network:\n  measured: [1]\n")),
              StartsWith("E043 c.yaml:11:14: 'measured': expected a map"));
}

TEST(Cluster, NamesThePlaceOfBadValues) {
  EXPECT_THAT(refusal(with("kind: cuda", "kind: cud")),
              StartsWith("E044 c.yaml:4:9: 'kind': expected one of cpu, cuda, "
                         "found 'cud'; did you mean 'cuda'?"));
  EXPECT_THAT(refusal(with("memory: 1.0e9", "memory: -1")),
              StartsWith("E044 c.yaml:5:11: 'memory': expected bytes, such as "
                         "25.2e9, 24 GB or 24GiB, found the number -1"));
  EXPECT_THAT(refusal(with("memory: 1.0e9", "memory: .inf")),
              StartsWith("E044 c.yaml:5:11: 'memory': expected bytes"));
  EXPECT_THAT(refusal(with("link: 1.0e9", "link: 1.0e9\n  gather: 1.5")),
              StartsWith("E044 c.yaml:13:11: 'gather': expected a number from "
                         "0.001 to 1, found 1.5"));
  EXPECT_THAT(refusal(with("ranks_per_node: 2", "ranks_per_node: 0")),
              StartsWith("E044 c.yaml:2:17: 'ranks_per_node': expected a "
                         "number from 1 to 1048576, found 0"));
  EXPECT_THAT(refusal(with("{f32:", "{float:")),
              StartsWith("E044 c.yaml:9:11: 'rates': expected element types "
                         "such as bf16 and f32, found 'float'"));
  EXPECT_THAT(refusal(with("memory: 1.0e9", "memory: 10\n  reserved: 10")),
              StartsWith("E044 c.yaml:6:13: 'reserved': expected less than the "
                         "device's memory, found 10 of 10"));
  EXPECT_THAT(refusal(with("network:", "  tiles: [[0, 2, 1]]\nnetwork:")),
              StartsWith("E044 c.yaml:10:10: 'tiles': expected rows, columns "
                         "and a positive efficiency"));
  EXPECT_THAT(refusal(with("  link:", "  kind: nccl\n  link:")),
              StartsWith("E044 c.yaml:12:3: 'kind' stands twice; keep one"));
  EXPECT_THAT(refusal(std::string(kLeast) + "device: {}\n"),
              StartsWith("E044 c.yaml:13:1: 'device' stands twice; keep one"));
}

TEST(Cluster, NamesThePlaceOfBadMeasurements) {
  auto measured = [](const char *text) {
    return refusal(with("network:\n",
                        std::string("network:\n  measured: [") + text + "]\n"));
  };
  EXPECT_THAT(measured("{kind: all_gather, ranks: 2}"),
              StartsWith("E046 c.yaml:11:14: a measured collective needs kind, "
                         "ranks and seconds"));
  EXPECT_THAT(measured("{kind: gather}"),
              HasSubstr("'kind': expected one of all_gather, reduce_scatter, "
                        "all_reduce, rotate, all_to_all, found 'gather'"));
  EXPECT_THAT(measured("{seconds: [[2, 1], [1, 2]]}"),
              StartsWith("E044 c.yaml:11:24: 'seconds': expected ascending "
                         "sizes"));
  EXPECT_THAT(measured("{ranks: 0}"),
              StartsWith("E044 c.yaml:11:22: 'ranks': expected a number from "
                         "1"));
}

TEST(Cluster, NamesThePlaceOfBrokenYaml) {
  EXPECT_THAT(refusal("name: [\n"), StartsWith("E041 c.yaml:2:1: "));
}

TEST(Cluster, SuggestsTheNearestName) {
  auto failure = [](const char *name) {
    try {
      Cluster::load(name);
    } catch (const Error &error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(failure("h100"), HasSubstr("or the path of a file that describes "
                                         "one, found 'h100'; did you mean "
                                         "'h100x8'?"));
  EXPECT_THAT(failure("abacus"), HasSubstr("found 'abacus'"));
  EXPECT_THAT(failure("no/such.yaml"),
              HasSubstr("the cluster 'no/such.yaml' cannot be opened"));
}

TEST(Curve, LiesBetweenItsPoints) {
  Curve curve({{10, 1}, {20, 3}, {40, 4}});
  EXPECT_DOUBLE_EQ(curve.at(0), 1);
  EXPECT_DOUBLE_EQ(curve.at(10), 1);
  EXPECT_DOUBLE_EQ(curve.at(15), 2);
  EXPECT_DOUBLE_EQ(curve.at(40), 4);
  EXPECT_DOUBLE_EQ(curve.at(60), 5);
  EXPECT_DOUBLE_EQ(Curve({{10, 7}}).at(1000), 7);
}

} // namespace
