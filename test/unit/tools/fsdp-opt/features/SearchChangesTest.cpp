//===- SearchChangesTest.cpp - The search builds what can be written ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/Cluster.h"
#include "test/unit/tools/fsdp-opt/config/ConfigText.h"
#include "test/unit/tools/fsdp-opt/config/FeatureTexts.h"
#include "tools/fsdp-opt/auto/Choices.h"

#include <random>

using namespace fsdp;
using namespace fsdp::test;

namespace {

TEST(SearchChanges, ParseIfAndOnlyIfTheyAreTried) {
  std::mt19937 random(7);
  const Cluster gpus = Cluster::load("h100x8"), host = Cluster::load("cpu");
  size_t tried = 0, refused = 0;
  for (int round = 0; round < 400; ++round) {
    ConfigYaml yaml;
    for (size_t i = 0; i < getFeatures().size(); ++i)
      if (random() % 8 == 0)
        yaml.add(static_cast<Feature>(i));
    if (!refusal(yaml.print()).empty())
      continue;
    const Config config = parse(yaml.print()).config;
    for (const Change *change : getChanges()) {
      bool isSaid = std::ranges::any_of(change->keys, [&](const auto &each) {
        return says(config, each.first);
      });
      EXPECT_FALSE(change->needsHost && withChange(config, *change, host));
      std::optional<Config> changed = withChange(config, *change, gpus);
      if (isSaid) {
        EXPECT_FALSE(changed) << yaml.print();
        continue;
      }
      ConfigYaml written = yaml;
      for (auto [path, value] : change->keys)
        written.set(std::string(path), std::string(value));
      std::string why = refusal(written.print());
      EXPECT_EQ(changed.has_value(), why.empty()) << written.print() << "\n"
                                                  << why;
      ++(changed ? tried : refused);
    }
  }
  // Neither is said of nothing.
  EXPECT_GT(tried, 100u);
  EXPECT_GT(refused, 5u);
}

TEST(SearchChanges, FreedomIsWhatGoesWithTheConfig) {
  const Cluster gpus = Cluster::load("h100x8");
  auto find = [&](const std::string &text) {
    return findFreedom(parse("mesh: {dp_shard: 2}\n" + text).config, gpus);
  };
  EXPECT_TRUE(find("").offloads);
  EXPECT_TRUE(find("float8: {}").offloads);
  EXPECT_FALSE(find("fsdp_config: {activation_offloading: false}").offloads);
  EXPECT_FALSE(find("fsdp_config: {reshard_after_forward: false}").keeps);
}

} // namespace
