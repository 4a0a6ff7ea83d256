//===- Config.h - How to shard and train ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The config file (docs/Config.md) as plain values: every key was known, had
// the right type, a value in range, and asks for something that is supported.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_H

#include "ir/capture/Target.h"
#include "tools/fsdp-opt/InitRules.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// Which parameters are gathered together.
enum class WrapPolicy {
  Blocks,  ///< each repeated block of the module tree
  Classes, ///< each module of the classes in `wrapClasses`
  Size,    ///< modules of at least `minParams` parameters
  None     ///< all in one bucket
};

/// Whether parameters are trained, or only the model's outputs computed.
enum class Mode { Train, Inference };

/// Which buckets are freed after the forward pass and gathered again.
enum class Reshard { All, AllButRoot, None };

/// Defaults are those of torch.optim's class of that name.
struct OptimizerConfig {
  std::string name = "adamw"; ///< adamw, adam or sgd
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8; ///< adamw, adam
  double momentum = 0.0;                         ///< sgd
  double weightDecay = 1e-2;
};

/// From a name of the model to the name in the files.
struct RenameRule {
  std::string from; ///< an ECMAScript regular expression, searched for
  std::string to;   ///< with $1 for the first group
};

/// How weights files are read.
struct WeightsConfig {
  std::vector<RenameRule> rename; ///< the first that matches counts
  /// Patterns of names in the files that count as absent.
  std::vector<std::string> ignore;
  /// Whether every parameter must be there, also one that the model file has
  /// data of.
  bool strict = true;
};

struct Config {
  /// Number of ranks, all of them one sharding group.
  int64_t dpShard = 1;
  WrapPolicy wrapPolicy = WrapPolicy::Blocks;
  std::vector<std::string> wrapClasses;
  int64_t minParams = 100'000'000;
  Reshard reshard = Reshard::AllButRoot;
  /// Absent: Train, unless the model has nothing to train.
  std::optional<Mode> mode;
  OptimizerConfig optimizer;
  bool hasOptimizer = false;         ///< the file has the key `optimizer`
  std::optional<double> maxGradNorm; ///< absent: no clipping
  int64_t seed = 0;
  Target target;              ///< what it will run on
  std::vector<InitRule> init; ///< the last that matches counts
  WeightsConfig weights;
  /// Groups of names that are one tensor.
  std::vector<std::vector<std::string>> ties;
};

/// A config, and what its file says that has no meaning here.
struct LoadedConfig {
  Config config;
  std::vector<std::string> notes; ///< "fsdp.yaml:3:1: 'base_model' …"
};

/// Parses `text`, which errors call `name`. `world` is --world: it completes
/// the mesh. Throws fsdp::Error (Config…, MeshMismatch).
LoadedConfig parseConfig(const std::string &text, const std::string &name,
                         std::optional<int64_t> world);

/// A key that has a meaning, for the documents' test.
struct ConfigKey {
  std::string_view section; ///< "" for the top level
  std::string_view name;
};
std::vector<ConfigKey> listConfigKeys();

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_H
