//===- ConfigFilesTest.cpp - Whole files of other tools -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The files in `files` have the forms of these tools' own; each is read as it
// stands.
//
//===----------------------------------------------------------------------===//

#include "plan/Schedule.h"
#include "test/unit/tools/fsdp-opt/config/ConfigText.h"
#include "tools/fsdp-opt/config/Listing.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

using namespace fsdp;
using namespace fsdp::test;
using testing::ElementsAreArray;
using testing::HasSubstr;

namespace {

const std::filesystem::path folder =
    FSDP_SOURCE_DIR "/test/unit/tools/fsdp-opt/config/files";

struct File {
  const char *name;
  int64_t world;
  /// Keys that are refused, and that are warned of, in their order.
  std::vector<const char *> refused, warned;
  /// Lines of the config in keys of this project.
  std::vector<const char *> own;
};

void PrintTo(const File &file, std::ostream *stream) { *stream << file.name; }

const File files[] = {
#include "test/unit/tools/fsdp-opt/config/Files.def"
};

std::string readFile(const std::filesystem::path &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> listKeysOf(const LoadedConfig &loaded,
                                    KeyOutcome outcome) {
  std::vector<std::string> all;
  for (const KeyReport &key : loaded.keys)
    if (key.outcome == outcome)
      all.push_back(key.key);
  return all;
}

/// Files name others that are beside them.
class ForeignFile : public testing::TestWithParam<File> {
protected:
  void SetUp() override { std::filesystem::current_path(folder); }
};

TEST_P(ForeignFile, IsReadAsItStands) {
  const File &file = GetParam();
  ReadConfig read =
      readConfig(readFile(folder / file.name), file.name, file.world);
  const LoadedConfig &loaded = read.loaded;
  EXPECT_THAT(listKeysOf(loaded, KeyOutcome::Refused),
              ElementsAreArray(file.refused));
  EXPECT_THAT(listKeysOf(loaded, KeyOutcome::Warned),
              ElementsAreArray(file.warned));
  EXPECT_EQ(read.problems.empty(), file.refused.empty())
      << testing::PrintToString(read.problems);
  for (const char *line : file.own)
    EXPECT_THAT("\n" + loaded.own, HasSubstr("\n" + std::string(line) + "\n"));
  // Each says where it stands, and what is not taken, why.
  for (const KeyReport &key : loaded.keys) {
    EXPECT_THAT(key.place, testing::StartsWith(std::string(file.name) + ":"));
    if (key.outcome != KeyOutcome::Own) {
      EXPECT_FALSE(key.text.empty()) << key.key;
    }
  }
  for (const std::string &problem : read.problems)
    EXPECT_THAT(problem, HasSubstr(std::string(file.name) + ":"));
}

/// What a file of DeepSpeed's brings has the place of the key that names it,
/// and what it says of itself its own.
TEST(ForeignFileTable, SaysWhatANamedFileBrings) {
  std::filesystem::current_path(folder);
  LoadedConfig loaded = parseConfig(readFile("axolotl-deepspeed.yaml"),
                                    "axolotl-deepspeed.yaml", 8);
  EXPECT_EQ(loaded.config.microBatches, 8);
  EXPECT_THAT(loaded.notes,
              testing::Contains(
                  "deepspeed-zero3.json: 'gradient_accumulation_steps: 4' is "
                  "not what 'axolotl-deepspeed.yaml' says, 8, which counts"));
  ReadConfig missing = readConfig("deepspeed: none.json\n", "x.yaml", 8);
  ASSERT_EQ(missing.problems.size(), 1u);
  EXPECT_THAT(missing.problems[0],
              HasSubstr("x.yaml:1:12: 'deepspeed' names a file that is not "
                        "taken:\n  error[fsdp-E001]"));
  ReadConfig refused = readConfig("bf16: true\nlearning_rate: 1\ndeepspeed: "
                                  "deepspeed-refused.json\n",
                                  "x.yaml", 8);
  ASSERT_EQ(refused.problems.size(), 1u);
  EXPECT_THAT(refused.problems[0],
              HasSubstr("deepspeed-refused.json:1:24: 'type: OneBitAdam'"));
  // Of a word that is no map nothing can be added to.
  ReadConfig beside = readConfig(
      "optimizer: adamw_torch\nlearning_rate: 1\ndeepspeed: "
      "{optimizer: {type: AdamW, params: {lr: 1, betas: [0.5, 0.6]}}}\n",
      "x.yaml", 8);
  EXPECT_TRUE(beside.problems.empty());
  EXPECT_THAT(beside.loaded.warnings,
              testing::Contains(HasSubstr("has no place beside 'optimizer: "
                                          "adamw_torch'")));
}

/// What the file becomes says the same: reading it changes nothing more.
TEST_P(ForeignFile, IsTheSameInOwnKeys) {
  const File &file = GetParam();
  if (!file.refused.empty())
    return;
  LoadedConfig theirs =
      parseConfig(readFile(folder / file.name), file.name, file.world);
  LoadedConfig own =
      parseConfig(theirs.own, "own.yaml", theirs.config.getWorldSize());
  EXPECT_EQ(own.own, theirs.own);
  EXPECT_EQ(own.warnings, std::vector<std::string>());
  const Config &a = theirs.config, &b = own.config;
  EXPECT_EQ(a.getWorldSize(), b.getWorldSize());
  EXPECT_EQ(a.dpShard, b.dpShard);
  EXPECT_EQ(a.tp, b.tp);
  EXPECT_EQ(a.cp, b.cp);
  EXPECT_EQ(a.rotate, b.rotate);
  EXPECT_EQ(a.reshard, b.reshard);
  EXPECT_EQ(a.reshardRanks, b.reshardRanks);
  EXPECT_EQ(a.wrapPolicy, b.wrapPolicy);
  EXPECT_EQ(a.wrapClasses, b.wrapClasses);
  EXPECT_EQ(a.checkpointing.size(), b.checkpointing.size());
  if (!a.checkpointing.empty() && !b.checkpointing.empty()) {
    EXPECT_EQ(a.checkpointing[0].policy, b.checkpointing[0].policy);
    EXPECT_EQ(a.checkpointing[0].every, b.checkpointing[0].every);
  }
  EXPECT_EQ(a.offloadActivations, b.offloadActivations);
  EXPECT_EQ(a.offloadParams, b.offloadParams);
  EXPECT_EQ(a.offloadOptimizer, b.offloadOptimizer);
  EXPECT_EQ(a.lossChunks, b.lossChunks);
  EXPECT_EQ(a.precision.describe(), b.precision.describe());
  EXPECT_EQ(a.float8.has_value(), b.float8.has_value());
  EXPECT_EQ(a.float8 && a.float8->allGather, b.float8 && b.float8->allGather);
  EXPECT_EQ(a.quantize.has_value(), b.quantize.has_value());
  if (a.quantize && b.quantize) {
    EXPECT_EQ(a.quantize->kind, b.quantize->kind);
  }
  bool isWithin = a.adapter && a.adapter->request.obstacle.empty();
  EXPECT_EQ(isWithin, b.adapter.has_value());
  if (isWithin && b.adapter) {
    EXPECT_EQ(a.adapter->request.rank, b.adapter->request.rank);
    EXPECT_EQ(a.adapter->request.getScale(), b.adapter->request.getScale());
    EXPECT_EQ(a.adapter->request.dropout, b.adapter->request.dropout);
    EXPECT_EQ(a.adapter->request.modules, b.adapter->request.modules);
    EXPECT_EQ(a.adapter->request.alsoTrain, b.adapter->request.alsoTrain);
  }
  EXPECT_EQ(a.weighsLoss, b.weighsLoss);
  EXPECT_EQ(a.noiseAlpha, b.noiseAlpha);
  EXPECT_EQ(a.microBatches, b.microBatches);
  EXPECT_EQ(a.optimizer.kind, b.optimizer.kind);
  EXPECT_EQ(a.optimizer.lr, b.optimizer.lr);
  OptimizerNumbers ours = a.optimizer.getNumbers();
  OptimizerNumbers again = b.optimizer.getNumbers();
  for (const OptimizerKey &key : getOptimizerKeys())
    for (OptimizerNumber number : key.numbers)
      EXPECT_EQ(ours[number], again[number]) << key.key;
  EXPECT_EQ(a.optimizer.groups.size(), b.optimizer.groups.size());
  EXPECT_EQ(a.optimizer.stateDType, b.optimizer.stateDType);
  EXPECT_EQ(a.schedule.has_value(), b.schedule.has_value());
  if (a.schedule && b.schedule) {
    EXPECT_EQ(a.schedule->kind, b.schedule->kind);
    EXPECT_EQ(a.schedule->warmup_steps, b.schedule->warmup_steps);
    EXPECT_EQ(a.schedule->warmup_ratio, b.schedule->warmup_ratio);
    EXPECT_EQ(a.schedule->total_steps, b.schedule->total_steps);
    EXPECT_EQ(a.schedule->min_lr, b.schedule->min_lr);
    EXPECT_EQ(a.schedule->min_lr_ratio, b.schedule->min_lr_ratio);
    for (const ScheduleNumberFacts &each : getScheduleNumbers())
      EXPECT_EQ(isGiven(*a.schedule, each.number)
                    ? getNumber(*a.schedule, each.number)
                    : -1,
                isGiven(*b.schedule, each.number)
                    ? getNumber(*b.schedule, each.number)
                    : -1);
  }
  EXPECT_EQ(a.maxGradNorm, b.maxGradNorm);
  EXPECT_EQ(a.lossScale.has_value(), b.lossScale.has_value());
  if (a.lossScale && b.lossScale) {
    EXPECT_EQ(a.lossScale->init, b.lossScale->init);
    EXPECT_EQ(a.lossScale->growthInterval, b.lossScale->growthInterval);
  }
  EXPECT_EQ(a.data.has_value(), b.data.has_value());
  EXPECT_EQ(a.target.isDeterministic, b.target.isDeterministic);
  EXPECT_EQ(a.seed, b.seed);
}

INSTANTIATE_TEST_SUITE_P(All, ForeignFile, testing::ValuesIn(files),
                         [](const testing::TestParamInfo<File> &info) {
                           std::string name = info.param.name;
                           for (char &letter : name)
                             if (!std::isalnum((unsigned char)letter))
                               letter = '_';
                           return name;
                         });

TEST(ForeignFileTable, HasEachFile) {
  std::set<std::string> there, known;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    there.insert(entry.path().filename().string());
  for (const File &file : files)
    known.insert(file.name);
  EXPECT_EQ(there, known);
  EXPECT_GE(there.size(), 40u);
}

} // namespace
