//===- Ranks.cpp - Which ranks form which groups --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/explain/Ranks.h"

#include "support/Table.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

using namespace fsdp;

namespace {
/// How much of a long list is drawn: all of so many, else the first ones and
/// the last.
constexpr int64_t kMostDrawn = 8, kFirstDrawn = 3;

/// Calls `draw` with the numbers below `count` that are drawn, and `leaveOut`
/// where some are not.
void forDrawn(int64_t count, const std::function<void(int64_t)> &draw,
              const std::function<void()> &leaveOut) {
  bool isWhole = count <= kMostDrawn;
  for (int64_t i = 0; i < (isWhole ? count : kFirstDrawn); ++i)
    draw(i);
  if (isWhole)
    return;
  leaveOut();
  draw(count - 1);
}

struct Axis {
  const char *name;
  int64_t size, stride;
  const char *exchanges;
};

std::string listRanks(int64_t base, const Axis &axis) {
  std::string text;
  auto add = [&](const std::string &word) {
    text += (text.empty() ? "" : " ") + word;
  };
  forDrawn(
      axis.size,
      [&](int64_t i) { add(std::to_string(base + i * axis.stride)); },
      [&] { add("…"); });
  return text;
}

/// "0 1 | 2 3"
std::string listGroups(const Axis &axis, int64_t world) {
  std::string text;
  auto add = [&](const std::string &group) {
    text += (text.empty() ? "" : " | ") + group;
  };
  forDrawn(
      world / axis.size,
      [&](int64_t i) {
        int64_t block = axis.size * axis.stride;
        add(listRanks(i / axis.stride * block + i % axis.stride, axis));
      },
      [&] { add("…"); });
  return text;
}
} // namespace

std::string fsdp::drawRanks(const Config &config) {
  int64_t world = config.getWorldSize();
  // Parameters are cut over all ranks of a replica but for 'tp'.
  int64_t shards = config.dpShard * config.cp;
  int64_t replica = shards * config.tp;
  const Axis axes[] = {
      {"tp", config.tp, 1, "what they compute of one batch together"},
      {"cp", config.cp, config.tp, "keys and values of a sequence's parts"},
      {config.cp > 1 ? "dp_shard × cp" : "dp_shard", shards, config.tp,
       "parameters and gradients"},
      {"dp_replicate", config.dpReplicate, replica,
       "gradients of their shards"},
  };
  auto hasMore = [](const Axis &axis) { return axis.size > 1; };
  if (std::ranges::count_if(axes, hasMore) < 2)
    return "";

  TextTable grid;
  std::vector<std::string> head{"replica", "shard"};
  forDrawn(
      config.tp,
      [&](int64_t i) {
        head.push_back(config.tp > 1 ? "tp " + std::to_string(i) : "rank");
      },
      [&] { head.push_back("…"); });
  grid.add(head);
  std::vector<std::string> gap(head.size(), "…");
  auto drawShards = [&](int64_t number) {
    forDrawn(
        shards,
        [&](int64_t shard) {
          std::vector<std::string> row{std::to_string(number),
                                       std::to_string(shard)};
          int64_t base = number * replica + shard * config.tp;
          forDrawn(
              config.tp,
              [&](int64_t i) { row.push_back(std::to_string(base + i)); },
              [&] { row.push_back("…"); });
          grid.add(row);
        },
        [&] { grid.add(gap); });
  };
  forDrawn(config.dpReplicate, drawShards, [&] { grid.add(gap); });

  TextTable groups;
  groups.add({"ranks of", "exchange", "groups"});
  for (const Axis &axis : axes)
    if (hasMore(axis))
      groups.add({axis.name, axis.exchanges, listGroups(axis, world)});
  std::string text = std::to_string(world) + " ranks";
  if (int64_t readers = config.cp * config.tp; readers > 1)
    text += ", each " + std::to_string(readers) +
            (config.cp > 1 ? " adjacent ones" : " of a row") +
            " read one batch";
  return text + "\n" + grid.print() + groups.print();
}
