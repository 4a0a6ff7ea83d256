//===- ConfigParser.h - From YAML to a config -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_CONFIGPARSER_H
#define FSDP_TOOLS_FSDPOPT_CONFIGPARSER_H

#include "tools/fsdp-opt/Config.h"
#include "tools/fsdp-opt/ForeignKeys.h"
#include "tools/fsdp-opt/YamlReader.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// Reads one config. A key is one row of getKeys() and one method, which stands
/// in the file of its concern: ConfigSharding.cpp, ConfigPrecision.cpp,
/// ConfigOptimizer.cpp, ConfigStep.cpp, ConfigWeights.cpp, ConfigData.cpp.
class ConfigParser {
  using Node = YAML::Node;

public:
  ConfigParser(const std::string &name, std::optional<int64_t> world)
      : read(name), world(world) {}

  LoadedConfig parse(const Node &root);
  static std::vector<ConfigKey> listKeys();

private:
  /// What no machine has, and no training takes: sums and products of these
  /// stay far from overflow.
  static constexpr int64_t kMostRanks = 1 << 20;
  static constexpr int64_t kMostSteps = 1'000'000'000'000;

  struct Key {
    std::string_view section, name;
    void (ConfigParser::*parse)(const Node &);
    /// Of another tool's key: what it is called here.
    std::string_view becomes = {};
  };
  static const std::vector<Key> &getKeys();

  void parseSection(std::string_view section, const Node &node);
  void parseKey(std::string_view section, std::string_view own,
                const Node &name, const Node &value);
  void parseForeign(const ForeignKey &key, const Node &name, const Node &value);
  /// Runs `parse`; a mistake is kept to be told with the others.
  template <typename Parse>
  void collect(Parse parse);
  void throwProblems() const;
  void noteTaken(const Key &key, const Node &name);
  [[noreturn]] void failUnknown(std::string_view section, const Node &name);

  void parseVersion(const Node &node);
  void parseMesh(const Node &node);
  void parseReplicate(const Node &node);
  void parseShard(const Node &node);
  void parseFsdpConfig(const Node &node);
  void parsePolicy(const Node &node);
  void parseClasses(const Node &node);
  void parseMinParams(const Node &node);
  void parseBuckets(const Node &node);
  void parseReshard(const Node &node);
  void parseIgnoredParams(const Node &node);
  void parseReduceIgnored(const Node &node);
  void parseShardDims(const Node &node);
  void parseReshardBackward(const Node &node);
  void parseSync(const Node &node);
  void parseMixedPrecision(const Node &node);
  void parseParamDtype(const Node &node);
  void parseReduceDtype(const Node &node);
  void parseOutputDtype(const Node &node);
  void parseCastInputs(const Node &node);
  void parseDivideFactor(const Node &node);
  void parseForceSum(const Node &node);
  void parseDivision(const Node &node);
  void parseOverrides(const Node &node);
  void parseOverrideModules(const Node &node);
  void parseOverridePrecision(const Node &node);
  void parseOverrideReshard(const Node &node);
  void parseLayout(const Node &node);
  void parseOverrideLayout(const Node &node);
  void parseOffload(const Node &node);
  void parsePrefetch(const Node &node);
  void parsePinMemory(const Node &node);
  void parseOptimizer(const Node &node);
  void parseOptimizerName(const Node &node);
  void parseLr(const Node &node);
  void parseBetas(const Node &node);
  void parseEps(const Node &node);
  void parseMomentum(const Node &node);
  void parseWeightDecay(const Node &node);
  void parseNesterov(const Node &node);
  void parseGroups(const Node &node);
  void parseGroupParams(const Node &node);
  void parseScheduler(const Node &node);
  void parseSchedulerName(const Node &node);
  void parseWarmupSteps(const Node &node);
  void parseWarmupRatio(const Node &node);
  void parseTotalSteps(const Node &node);
  void parseMinLr(const Node &node);
  void parseGradNormType(const Node &node);
  void parseLostGradients(const Node &node);
  void parseOnNonFinite(const Node &node);
  void parseLossScale(const Node &node);
  void parseScaleInit(const Node &node);
  void parseScaleGrowth(const Node &node);
  void parseScaleBackoff(const Node &node);
  void parseScaleInterval(const Node &node);
  void parseAccumulation(const Node &node);
  void parseMaxGradNorm(const Node &node);
  void parseDevice(const Node &node);
  void parseCudaArch(const Node &node);
  void allow(bool plan::ArithmeticT::*what, bool is);
  void parseTf32(const Node &node);
  void parseReducedReduction(const Node &node);
  void parseFp16Accumulation(const Node &node);
  void parseSeed(const Node &node);
  void parseMode(const Node &node);
  void parseInit(const Node &node);
  void parseWeights(const Node &node);
  void parseRename(const Node &node);
  void parseIgnore(const Node &node);
  void parseStrict(const Node &node);
  void parseTied(const Node &node);
  void parseData(const Node &node);
  void parseTokens(const Node &node);
  void parseSamples(const Node &node);
  void parseTokenFormat(const Node &node);
  void parseTokenDtype(const Node &node);
  void parseDataInputs(const Node &node);
  void parseDataTargets(const Node &node);
  void parseShuffle(const Node &node);
  void parseDataSeed(const Node &node);
  void parseEpochs(const Node &node);
  void parseDropLast(const Node &node);
  void parseEval(const Node &node);
  void parseEvalData(const Node &node);
  void parseEvalEvery(const Node &node);
  void parseEvalBatches(const Node &node);

  // Keys of other tools.
  void parseOptimizerWord(const Node &node);
  void parseAdamBeta1(const Node &node);
  void parseAdamBeta2(const Node &node);
  void parseForeignDecay(const Node &node);
  void parseForeignWarmupSteps(const Node &node);
  void parseForeignWarmupRatio(const Node &node);
  void parseMaxSteps(const Node &node);
  void parseProcesses(const Node &node);
  void parseForeignPrecision(const Node &node);
  void parseForeignFp16(const Node &node);
  void takeForeignPrecision(const Node &node, const std::string &dtype);
  void parseStrategy(const Node &node);
  void parseFsdpWord(const Node &node);
  void parseStatedRows(const Node &node);
  void parseStatedTokens(const Node &node);
  void mergeSchedule();
  void applyStrategy();

  void checkPolicy();
  void checkOptimizer(const Node &section);
  void checkNesterov();
  void checkScheduler();
  void checkMode(const Node &root);
  void checkLossScale(const Node &root);
  void checkMicroBatches();
  void checkEval(const Node &root);
  void resolveMesh(const Node &root);
  void checkReshard();
  void checkLayout();
  void checkOffload();
  void checkDivision();
  void checkArithmetic(const Node &root);

  /// Empty for null.
  std::string readDtype(const Node &node, std::string_view key);
  void addNote(const Node &node, const std::string &text) {
    result.notes.push_back(read.describePlace(node) + ": " + text);
  }
  void addMinor(const Node &node, const std::string &text) {
    result.minor.push_back(read.describePlace(node) + ": " + text);
  }
  void addWarning(const Node &node, const std::string &text) {
    result.warnings.push_back(read.describePlace(node) + ": " + text);
  }
  std::optional<StatedSize> readStatedSize(const Node &node,
                                           std::string_view key);
  /// A setting of the group that is read, or else of all parameters.
  template <typename T>
  void set(T OptimizerConfig::*ofAll, std::optional<T> OptimizerGroup::*ofGroup,
           T value);
  /// Of reshard_after_forward; none if it is true or false.
  std::optional<int64_t> readReshardRanks(const Node &node);
  LayoutChoice readLayout(const Node &node);
  double readBeta(const Node &node, std::string_view key);
  /// A whole number from `least` to `most`.
  int64_t readRange(const Node &node, std::string_view key, int64_t least,
                    int64_t most);
  /// A whole number that is not negative.
  int64_t readCount(const Node &node, std::string_view key,
                    int64_t most = kMostSteps);
  /// A whole number from 1.
  uint64_t readPositive(const Node &node, std::string_view key,
                        int64_t most = kMostSteps);
  /// A path, or a list of them.
  std::vector<std::string> readPaths(const Node &node, std::string_view key);
  std::string locate(const std::string &path) const;
  /// A value that is not negative.
  double readAmount(const Node &node, std::string_view key);
  [[noreturn]] void failLater(const Node &node, const std::string &what,
                              const std::string &advice);

  YamlReader read;
  std::vector<Error> problems;
  std::optional<int64_t> world;
  LoadedConfig result;
  std::optional<const Node> meshNode, fsdpNode, optimizerNode, schedulerNode;
  OptimizerGroup *group = nullptr; ///< the one that is read, if any
  std::string schedulerName;
  /// Of keys of other tools, which may stand before what they belong to.
  std::optional<const Node> optimizerWord, foreignWarmup, strategyNode;
  plan::ScheduleT foreignSchedule;
  bool noDecay = false;
  std::optional<int64_t> processes;
  std::string strategy; ///< of FSDP1
  /// Own keys that were given under any name, and where.
  std::map<std::string, std::string> taken;
  std::optional<int64_t> dpShard;
  bool offloadParams = false;
  PrecisionPolicy *policy = nullptr; ///< the one that is read
  bool inOverride = false;
  /// Keys of the section that were given.
  std::set<std::string, std::less<>> given;
};

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIGPARSER_H
