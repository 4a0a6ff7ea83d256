//===- Config.h - How to shard and train ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The config file (docs/Config.md) as plain values: every key was known, had
// the right type, a value in range, and asks for something that is supported.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_CONFIG_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_CONFIG_H

#include "ir/capture/request/Adapter.h"
#include "ir/capture/request/Precision.h"
#include "ir/capture/request/Target.h"
#include "plan/plan_generated.h"
#include "support/Optimizers.h"
#include "tools/fsdp-opt/config/InitRules.h"

#include <cstdint>
#include <map>
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

/// How the shards of a bucket lie: in equal parts of all of them where that can
/// be, as rows of each parameter, or in equal parts or not at all.
enum class LayoutChoice { Auto, Rows, Flat, Fsdp2 };

/// Parameters that are moved together.
struct NamedBucket {
  std::string name;
  std::vector<std::string> patterns; ///< of parameters or modules
};

/// Settings of some parameters that differ from the others'.
struct OptimizerGroup {
  std::vector<std::string> patterns; ///< see support/Pattern.h
  std::optional<double> lr;
  std::map<OptimizerNumber, double> numbers; ///< those that are given
  /// Parameters of modules of class LayerNorm are in it, whatever their names.
  bool sparesNorms = false;
};

/// When ranks exchange the gradients of a step's micro-batches.
enum class Sync {
  Each,         ///< in each
  Last,         ///< in the last one; whole gradients are summed until then
  AllReduceLast ///< within a shard group in each, across replicas in the last
};

/// What the states that an optimizer keeps of parameters are stored as.
enum class StateChoice { BFloat16, Int8, Float8, Float32 };

/// What shares a scale among numbers of eight bits.
enum class Float8Choice { Tensorwise, Rowwise, Mxfp8 };

/// Linear layers whose products are of numbers of eight bits.
struct Float8Config {
  Float8Choice recipe = Float8Choice::Tensorwise;
  std::vector<std::string> modules = {"*"}; ///< patterns of their paths
  bool allGather = false;                   ///< parameters travel in 8 bits
  bool padInnerDim = false;                 ///< of any size
};

/// How frozen parameters are stored in blocks of codes.
enum class QuantizeChoice { Nf4, Int8, Fp4 };

/// Frozen matrices that are held in blocks of codes.
struct QuantizeConfig {
  std::vector<std::string> modules = {"*"}; ///< patterns of their paths
  QuantizeChoice kind = QuantizeChoice::Nf4;
  int64_t blockSize = 64;        ///< elements
  bool doubleQuant = false;      ///< scales are coded as well
  std::vector<std::string> skip; ///< patterns of paths that stay as they are
};

/// Low-rank adapters that layers get.
struct AdapterConfig {
  AdapterRequest request;
  std::optional<double> ratio; ///< of the second matrices' learning rate
};

/// Defaults are those of torch.optim's class of that name.
struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::adamw;
  double lr = 1e-3;
  std::map<OptimizerNumber, double> numbers; ///< those that are given
  std::vector<OptimizerGroup> groups;        ///< the last that matches counts
  std::optional<StateChoice> stateDType;     ///< absent: the parameter's type
  bool stochasticRounding = false;           ///< of parameters in bf16
  bool holdsMasters = false; ///< parameters of fewer bits are held in float32

  /// Of all parameters, or of those of a group.
  OptimizerNumbers getNumbers(const OptimizerGroup *group = nullptr) const {
    OptimizerNumbers all = getFacts(kind).getDefaults();
    for (auto [number, value] : numbers)
      all[number] = value;
    if (group)
      for (auto [number, value] : group->numbers)
        all[number] = value;
    return all;
  }
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

/// What the run reads for the inputs. Files are named as in the config.
struct DataConfig {
  plan::DataT data;
  std::string place; ///< "fsdp.yaml:3:5"
};

/// Along which dim some parameters are sharded.
struct ShardDim {
  std::string pattern;        ///< of their names
  std::optional<int64_t> dim; ///< absent: the largest

  bool operator==(const ShardDim &) const = default;
};

/// What holds for some modules instead of what the config says for all, as if
/// each of them were wrapped on its own.
struct ModuleOverride {
  std::vector<std::string> modules; ///< shell patterns of their paths
  std::string place;                ///< "fsdp.yaml:3:5"
  std::optional<PrecisionPolicy> precision;
  /// Over how many ranks buckets called so are sharded between forward and
  /// backward: 0 is all, 1 keeps them gathered.
  std::optional<int64_t> reshard;
  std::optional<LayoutChoice> layout; ///< of buckets called so
  std::optional<int64_t> prefetch;    ///< how far ahead these are gathered
  /// In what their gradients travel; "float32": as they are summed.
  std::string reduceWireDtype;
};

/// As torch.amp.GradScaler, whose defaults these are.
struct LossScaleConfig {
  double init = 65536;
  double growthFactor = 2, backoffFactor = 0.5;
  int64_t growthInterval = 2000; ///< 0: the scale stays
};

/// Averages of what is trained.
struct EmaConfig {
  double decay = 0.999;
  int64_t updateAfterStep = 0, every = 1;
  plan::AverageWarmup warmup = plan::AverageWarmup::none;
  double gamma = 1, power = 2.0 / 3; ///< of a warm-up by power
  bool keepsType = false; ///< not float32 of parameters of fewer bits
};

/// Norms that a step reports by module or parameter.
struct NormsConfig {
  bool gradients = false, weights = false, updates = false;
  bool byModule = true;

  bool isAny() const { return gradients || weights || updates; }
};

/// What a block that is computed again for backward keeps.
enum class RecomputeChoice {
  Full,     ///< its inputs
  Selective ///< also what some operators return
};

/// Which activations are computed again, and how.
struct CheckpointingConfig {
  RecomputeChoice policy = RecomputeChoice::Full;
  int64_t every = 1;                ///< so many-th block
  std::vector<std::string> modules; ///< patterns; empty: by the wrap policy
  std::vector<std::string> save; ///< patterns of operators; empty: usual ones
};

/// How tensor parallel ranks hold a module's parameters.
enum class ParallelChoice {
  Colwise,  ///< parts of what it computes
  Rowwise,  ///< parts of what it reads
  Replicate ///< all of them
};

/// How modules of some paths are computed by tensor parallel ranks.
struct ParallelRule {
  std::string pattern; ///< of their paths
  ParallelChoice style = ParallelChoice::Colwise;

  bool operator==(const ParallelRule &) const = default;
};

/// How attention of parts of a sequence meets the keys of the others.
enum class RotateChoice {
  Auto,      ///< gathered, unless `Planner::Auto` finds a ring faster
  AllGather, ///< all at once
  Ring       ///< passed from rank to rank
};

/// Who decides what is kept, computed again, moved and gathered when.
enum class Planner {
  Default,     ///< the rules that the other keys describe
  Auto,        ///< the compiler, within the budget
  Fsdp2,       ///< one ahead
  DeepCompile, ///< gathers as early as memory allows
  Inductor     ///< parameters in their order of use, up to a cap of bytes
};

/// Who says which types have few bits.
enum class TypeChoice {
  Given, ///< the keys that name types
  Auto   ///< the compiler, by prediction
};

/// What a rank may hold of a device's memory.
struct MemoryBudget {
  double bytes = 0; ///< 0: the share counts
  double share = 1;
  std::string place; ///< "fsdp.yaml:3:5"
};

struct Config {
  /// Ranks that a parameter is sharded over.
  int64_t dpShard = 1;
  /// Replicas of the shards (HSDP).
  int64_t dpReplicate = 1;
  /// Ranks that compute a step of one batch together.
  int64_t tp = 1;
  /// Ranks, `tp` each, that compute parts of a batch's sequence.
  int64_t cp = 1;
  /// The last that matches counts; absent: as the compiler finds it.
  std::optional<std::vector<ParallelRule>> tpPlan;
  /// What no plan splits is computed by parts of the sequence.
  bool sequenceParallel = false;
  RotateChoice rotate = RotateChoice::Auto; ///< along cp

  int64_t getWorldSize() const { return dpReplicate * dpShard * cp * tp; }
  /// Lets dpShard be what `world` ranks leave. False, without a change, if
  /// replicas, tensor parallel ranks or parts of the shard group cannot be cut
  /// to size.
  bool setWorldSize(int64_t world);

  WrapPolicy wrapPolicy = WrapPolicy::Blocks;
  std::vector<std::string> wrapClasses;
  int64_t minParams = 100'000'000;
  std::vector<NamedBucket> buckets; ///< the first that matches counts
  Reshard reshard = Reshard::AllButRoot;
  /// With Reshard::All: over how many adjacent ranks parameters are sharded
  /// between forward and backward; 0: over all of dpShard.
  int64_t reshardRanks = 0;
  LayoutChoice layout = LayoutChoice::Rows;
  /// Buckets that are gathered ahead of the one in use.
  int64_t prefetch = 1;
  /// Reductions that have started when an older one is waited for.
  int64_t reductionsInFlight = 1;
  /// Patterns of names of parameters that are not sharded.
  std::vector<std::string> ignoredParams;
  /// Whether these parameters' gradients are averaged over the ranks.
  bool reduceIgnoredParams = true;
  std::vector<ShardDim> shardDims; ///< else 0; the last that matches counts
  std::vector<ModuleOverride> overrides; ///< the last that matches counts
  /// By what gradients summed over ranks are divided; absent: their number.
  std::optional<double> gradientDivideFactor;
  bool forceSumReduction = false;
  /// Of several that choose a module, the last counts; empty: none.
  std::vector<CheckpointingConfig> checkpointing;
  /// Whether what the model itself checkpoints is computed again.
  bool followsCheckpoints = true;
  /// Patterns of modules whose activations lie in the host's memory.
  std::vector<std::string> offloadActivations;
  int64_t lossChunks = 1; ///< 0: as many as make one small
  /// Operators that follow each other become kernels of our own.
  bool kernels = false;
  /// RMS norms that the model writes out become LibTorch's.
  bool fusesNorms = false;
  /// Buckets are updated in backward where nothing needs all gradients first.
  bool optimizerInBackward = true;
  bool offloadParams = false;    ///< to the host's memory
  bool offloadOptimizer = false; ///< the optimizer's states alone
  bool pinMemory = true;         ///< of what is offloaded
  /// Gradients are divided by the optimizer; absent: as the device likes it.
  std::optional<bool> divideInOptimizer;
  std::string reduceWireDtype; ///< empty: the type that gradients are summed in
  Precision precision;         ///< with what overrides say of it
  std::optional<Float8Config> float8;     ///< absent: no layer
  std::optional<QuantizeConfig> quantize; ///< absent: nothing
  std::optional<AdapterConfig> adapter;   ///< absent: none is put in
  int64_t microBatches = 1;               ///< of a step
  Sync sync = Sync::Each;
  /// Above 0: a step consists of so many batches, whatever the ranks, and
  /// `microBatches` are those of the rank with most.
  int64_t grains = 0;
  /// Parameters stay gathered from a step's first micro-batch to its last.
  bool keepGathered = false;
  /// Absent: Train, unless the model has nothing to train.
  std::optional<Mode> mode;
  OptimizerConfig optimizer;
  bool hasOptimizer = false;               ///< the file has the key `optimizer`
  std::optional<plan::ScheduleT> schedule; ///< absent: constant
  std::optional<double> maxGradNorm;       ///< absent: no clipping
  std::optional<DataConfig> data;          ///< absent: the run says it all
  std::optional<plan::ValidationT> validation; ///< absent: none
  std::optional<LossScaleConfig> lossScale; ///< absent: the loss is not scaled
  std::optional<EmaConfig> ema;             ///< absent: nothing is averaged
  NormsConfig norms;     ///< that steps report by parameter or module
  double noiseAlpha = 0; ///< NEFTune's; 0: none
  /// Documents that a row may hold; absent: CaptureRequest's number.
  std::optional<int64_t> documentsPerRow;
  bool weighsLoss = false; ///< a step's loss is the mean over its labels
  bool acceptLostGradients = false; ///< of backwards that the export dropped
  double gradNormType = 2;          ///< 1, 2 or infinity
  plan::NonFinite onNonFinite = plan::NonFinite::stop;
  int64_t seed = 0;
  Target target;       ///< what it will run on
  std::string cluster; ///< name or path of its description; empty: none
  Planner planner = Planner::Default;
  TypeChoice types = TypeChoice::Given;
  /// Whether something is left to predictions.
  bool isDecided() const {
    return planner != Planner::Default || types != TypeChoice::Given;
  }
  /// Of a device's memory; absent: all of it.
  std::optional<MemoryBudget> memoryBudget;
  std::optional<plan::ArithmeticT> arithmetic; ///< absent: exactly
  std::vector<InitRule> init;                  ///< the last that matches counts
  WeightsConfig weights;
  /// Groups of names that are one tensor.
  std::vector<std::vector<std::string>> ties;
  /// Where keys stand: "fsdp_config.shard_dims" at "fsdp.yaml:3:5".
  std::map<std::string, std::string, std::less<>> places;
};

/// A size that a file of another tool states, and that the export fixed.
struct StatedSize {
  int64_t size = 0;
  std::string key, place; ///< "sequence_len", "fsdp.yaml:3:1"
};

/// What becomes of a key of the file.
enum class KeyOutcome {
  Own,        ///< of this project
  Taken,      ///< another tool's, under another name here
  Nothing,    ///< asks for nothing
  PassedOver, ///< changes nothing
  Warned,     ///< would change training, and is not taken from here
  Refused
};

struct KeyReport {
  std::string place, key; ///< "fsdp.yaml:3:1", "fsdp_config.version"
  KeyOutcome outcome = KeyOutcome::Own;
  std::string text; ///< why, or what it is taken as
};

/// A config, and what its file says beside it, each "fsdp.yaml:3:1: …".
struct LoadedConfig {
  Config config;
  /// Training differs from what the file says unless one acts.
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
  /// Keys that were taken under another name, or that have no meaning here.
  std::vector<std::string> minor;
  std::optional<StatedSize> rows, tokens; ///< of one rank's batch
  std::vector<KeyReport> keys;            ///< of the file, in its order
  std::string own; ///< the same config in keys of this project
};

/// Parses `text`, which errors call `name`. `world` is --world: it completes
/// the mesh. Throws fsdp::Error (Config…, MeshMismatch) of the first mistake,
/// with a line for each of the others. `target` is what it is compiled for
/// unless the file says that.
LoadedConfig parseConfig(const std::string &text, const std::string &name,
                         std::optional<int64_t> world,
                         const Target &target = {});

/// The same of a file that may have mistakes: `problems` are those that
/// parseConfig would throw, each "error[…]: …". A number of ranks may be
/// missing. Throws fsdp::Error (ConfigNotReadable) of what is no such file.
struct ReadConfig {
  LoadedConfig loaded;
  std::vector<std::string> problems;
};
ReadConfig readConfig(const std::string &text, const std::string &name,
                      std::optional<int64_t> world);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_CONFIG_H
