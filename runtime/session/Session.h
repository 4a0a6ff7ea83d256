//===- Session.h - A compiled training step on one rank ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The public interface of the runtime, with Launch.h. A session holds one
// rank's shards and runs the compiled step on them; it needs no Python and no
// compiler. All methods are used by the rank's own thread; those marked
// collective are called by all ranks, in the same order. Errors are
// fsdp::Error.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_SESSION_SESSION_H
#define FSDP_RUNTIME_SESSION_SESSION_H

#include "runtime/device/DeviceOptions.h"
#include "runtime/states/Exported.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fsdp {

class Arena;
class Arenas;
class Device;
class Fabric;
class PlanFile;
class DeviceActivities;
class ProfileRecorder;
namespace plan {
struct PlanT;
}

/// As a number of steps: as many as the data's `epochs` have.
inline constexpr uint64_t kUntilDataEnds = UINT64_MAX;
/// What all ranks have to have been started with.
struct RunFact {
  std::string name;  ///< "--lr"
  std::string value; ///< that is compared; empty: not given
  std::string shown; ///< in errors; empty: `value`
};

/// What a person may choose of the members has a row in RunOptions.def.
struct SessionOptions {
  /// Folder that the artifact's path of the model file is relative to.
  std::string artifactFolder = ".";
  /// The model file, if it is not where the artifact says.
  std::string modelPath;
  /// Weights files, indices or folders to read first values from in place of
  /// those that the artifact names.
  std::vector<std::string> weightsPaths;
  /// Whether states that have no first value start as zeros, and inputs without
  /// data as their samples or zeros, for runs whose results nobody looks at.
  bool allowMissingValues = false;
  /// A safetensors file with a tensor for each input, rows being samples; or,
  /// where inputs take tokens, a token file or a shell pattern of some. Stands
  /// for the artifact's files. "sample": the samples that the model was
  /// exported with, in each step (a file of that name is "./sample"). Without
  /// any of these, inputs have what `setInput` gave them, and a micro-batch
  /// whose inputs have nothing is an error (DataNotNamed, DataMissing).
  std::string dataPath;
  /// Whether no data is an error at once, for callers that set no inputs.
  bool needsData = false;
  /// "shuffle=true,seed=1": fields of the artifact's data section
  /// (docs/Data.md) that are others in this run.
  std::string dataOptions;
  /// What validation reads, in place of the artifact's files.
  std::string evalDataPath;
  /// Batches of all ranks that validation reads, in place of the artifact's
  /// number; 0: all that the data fills.
  std::optional<uint64_t> evalBatches;
  /// Where random sequences begin; absent: at the artifact's seed.
  std::optional<uint64_t> seed;
  /// The base's learning rate in place of the artifact's, before any schedule;
  /// those of parameter groups follow in proportion.
  std::optional<double> lr;
  /// A schedule in place of the artifact's, as "linear:warmup=10,total=100"
  /// (plan/Schedule.h). Empty: the artifact's.
  std::string lrSchedule;
  /// Steps of the whole training, those of a checkpoint too, which `train`
  /// takes, and schedules that do not say go by; absent: unknown.
  /// kUntilDataEnds is an error (BadUsage) if the data has no end.
  std::optional<uint64_t> steps;
  /// What to start from in place of first values: a checkpoint, a folder of
  /// several, of which the newest is meant, or safetensors files of another
  /// writer (docs/Checkpoints.md). Empty: first values.
  std::string checkpointPath;
  /// Whether a run whose checkpoint is not there starts from first values.
  bool mayLackCheckpoint = false;
  /// Of an artifact with several programs for the inputs' shapes, the one to
  /// run: its name, or what stands in brackets. Empty: what the inputs fit.
  std::string program;
  /// Whether all ranks are threads of this process.
  bool isInProcess = false;
  /// Whether callers give `evaluate` its batches: it then needs no files.
  bool givesValidation = false;
  /// "stop", "skip" or "ignore": what a loss or gradient norm that is a NaN or
  /// infinite does, in place of what the artifact says; empty: that. Artifacts
  /// that do not skip cannot be made to.
  std::string onNonFinite;
  /// Whether to look for the operator that made such a number, in every step,
  /// which takes many times as long.
  bool debugNan = false;
  DeviceOptions device;
  /// Makes the rank's device; empty: it is the one that the artifact names.
  std::function<std::unique_ptr<Device>(Fabric &)> makeDevice;
  /// Whether all memory that no state owns is filled with NaN before each step,
  /// so that a read of what nobody wrote shows.
  bool poison = false;
  /// What else ranks have to agree on. They compare it, with these options,
  /// when they meet: a difference is an error (RunOptionsDiffer) on all of
  /// them.
  std::vector<RunFact> agreed;
};

/// Collectives of one kind and group that a rank took part in. Bytes are those
/// that it receives in an all-gather and sends into a reduction, padding
/// included.
struct CollectiveCount {
  std::string kind;  ///< "all_gather"; "metrics" for loss and norm
  std::string group; ///< "dp_shard"
  uint64_t count = 0, bytes = 0;
};

/// What all ranks have after a step, over all its micro-batches. A program for
/// inference has a loss only if the model returns one under that name, and
/// neither norm nor rate.
struct StepResult {
  uint64_t step = 0;
  std::optional<double> loss;     ///< mean over ranks and micro-batches
  std::optional<double> gradNorm; ///< before clipping
  /// Whether the loss or the norm was no finite number and the parameters are
  /// what they were (on_nonfinite: skip).
  bool isSkipped = false;
  std::optional<double> lr;
  /// Means over ranks and micro-batches of the other outputs that are
  /// floating-point numbers.
  std::vector<std::pair<std::string, double>> metrics;
  /// Norms by parameter or module that the config asks for (metrics),
  /// "grad/model.layers.0".
  std::vector<std::pair<std::string, double>> norms;
  /// The one that ran, "train/step"; of several micro-batches the last one's.
  std::string program;
  std::vector<CollectiveCount> collectives; ///< of all micro-batches
  /// Seconds of the step in which this rank's thread waited for transfers; not
  /// known of a GPU, whose streams wait for each other.
  std::optional<double> exposedSeconds;
  /// Bytes of tensor data that this rank's kernels asked for and that came
  /// neither from the plan nor from the scratch region.
  uint64_t unplannedBytes = 0;
};

/// An output that was kept (fsdp-opt --output), of one rank's micro-batch.
struct OutputTensor {
  std::string name;           ///< "logits"
  std::string_view dtype;     ///< "f32", "bf16", "i64", …
  std::vector<int64_t> shape; ///< contiguous
  /// Those of the last micro-batch, until the next begins: in the rank's arena,
  /// or of a GPU's a copy.
  std::span<const std::byte> bytes;
};

/// What one input has in one micro-batch of a rank.
struct GivenInput {
  std::string name;
  std::vector<int64_t> shape;       ///< one that programs take it in
  std::span<const std::byte> bytes; ///< contiguous; lives during the call
};

/// What Hugging Face's libraries make files of.
inline constexpr uint64_t kExportShardBytes = 5'000'000'000;
/// What validation found; the same on all ranks.
struct EvalResult {
  double loss = 0;      ///< mean over batches and ranks
  uint64_t batches = 0; ///< of all ranks together
  uint64_t rows = 0;    ///< of the data
};

/// Bytes of one rank.
struct MemoryUse {
  uint64_t arena = 0; ///< all tensors of the device; planned, exact
  uint64_t host = 0;  ///< those of the host beside it; planned, exact
  /// Planned bound of the operators' temporaries, and of what a GPU's libraries
  /// work in; none where that is unknown.
  std::optional<uint64_t> scratchBound;
  /// The region for them, sized by a rehearsal before the first step, equal on
  /// all ranks; and what went past it.
  uint64_t scratch = 0;
  /// Of the transfers' back end (NCCL's: as far as it was seen to take any), of
  /// batches that are read ahead, and of a GPU's libraries.
  uint64_t staging = 0;
};

class Session {
public:
  /// Collective. Checks that the ranks have the same artifact, that LibTorch,
  /// model file and data fit it, and loads this rank's rows. `plan` and
  /// `fabric` outlive the session.
  Session(const PlanFile &plan, Fabric &fabric, const SessionOptions &options);
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  int rank() const;
  int worldSize() const;
  bool isInProcess() const;
  const plan::PlanT &plan() const;
  Fabric &fabric() const;

  /// Collective: runs the next step, all its micro-batches (the config's
  /// gradient_accumulation_steps), or what is left of it.
  StepResult step();

  /// Collective: runs the next micro-batch. The step's last one updates the
  /// parameters and gives its result. For callers who set the inputs of each,
  /// or read the outputs of each; all others call `step`.
  std::optional<StepResult> microBatch();
  /// The same with these inputs, in this micro-batch alone, copied once.
  std::optional<StepResult> microBatch(std::span<const GivenInput> inputs);

  /// How many make a step.
  uint64_t microBatches() const;

  /// Steps that the data has rows for from here on (its `epochs`); absent:
  /// there is no end. Steps beyond read on in another epoch.
  std::optional<uint64_t> stepsLeft() const;

  /// Whether the artifact has a program for validation and files are named for
  /// it.
  bool canEvaluate() const;
  /// Collective: the loss over the validation's rows, between two steps.
  /// Nothing of them changes by it but the outputs' bytes, which are gone.
  /// Throws fsdp::Error (RuntimeUnsupported) if that cannot be done.
  EvalResult evaluate();
  /// Collective: the mean over ranks of the loss over these inputs, between two
  /// steps, for callers that said so (`givesValidation`). Throws as `evaluate`.
  double evaluate(std::span<const GivenInput> inputs);

  /// Whether steps train, rather than only compute outputs.
  bool isTraining() const;

  /// Steps of the training that are done, those in front of the checkpoint that
  /// was loaded too.
  uint64_t stepsDone() const;

  /// Rows of the data that all ranks together have read for them.
  uint64_t rowsRead() const;

  /// Collective, between two steps: goes on from a checkpoint, as a session
  /// that started from it (`checkpointPath`). Files of another writer give the
  /// model's states alone; optimizer and steps stay. `isOwn`: the path is this
  /// process's own, which other ranks need not see. Throws fsdp::Error, after
  /// which states may have parts of both.
  void loadCheckpoint(const std::string &path, bool isOwn = false);

  /// The checkpoint that was loaded last; empty: first values.
  const std::string &loadedFrom() const;

  /// The kept outputs, in the order in which the model returns them: of the
  /// program that ran last, or of the first one before any did. The list of a
  /// program stays the same; what the bytes hold changes with each micro-batch.
  const std::vector<OutputTensor> &outputs() const;
  /// Throws fsdp::Error (OutputNotKept) that lists what there is.
  const OutputTensor &output(std::string_view name) const;

  /// Gives the input `name` these bytes (contiguous) in all further
  /// micro-batches. If the artifact's programs take it in several shapes,
  /// `shape` says which; each micro-batch runs the program that takes the
  /// shapes of all inputs. All ranks set inputs before the same micro-batches,
  /// with the same shapes: a rank that differs is an error on all of them.
  void setInput(const std::string &name, std::span<const std::byte> bytes);
  void setInput(const std::string &name, std::span<const int64_t> shape,
                std::span<const std::byte> bytes);

  /// Whether the rows of a step choose its program: shapes of outputs may
  /// change from step to step.
  bool choosesPrograms() const;

  /// Collective: the greatest of the ranks' numbers, by which callers who give
  /// inputs choose one program for all. Of an artifact that leaves no choice it
  /// is the rank's own.
  uint64_t findGreatest(uint64_t number);

  /// Batches that all ranks together read in a step.
  uint64_t batchesPerStep() const;
  /// Samples that all ranks together read in a step.
  int64_t samplesPerStep() const;

  MemoryUse memory() const;

  /// From now on, writes down there what runs when (runtime/profile); null:
  /// nowhere. On a device it is to watch `activities`.
  void record(ProfileRecorder *recorder);
  /// What lists the device's work; null: the session is on the host. Throws
  /// fsdp::Error (RuntimeUnsupported) where it cannot be listed.
  DeviceActivities *activities() const;

  /// Collective: writes the unsharded parameters, under all their names, and
  /// persistent buffers to a safetensors file, wholly or not at all. If `path`
  /// ends with '/' or is a folder, to model.safetensors there, or to files of
  /// `shardBytes` at most, or one tensor, and model.safetensors.index.json;
  /// beside them what the folder of first values has of config and tokenizer.
  /// What `without` has patterns of is left out.
  ///
  /// `what` of the model: with its adapters merged by PEFT's names of it; what
  /// is trained alone, of adapters that the config asked for in a folder of
  /// PEFT's; averages. Throws fsdp::Error (RuntimeUnsupported) where that is
  /// not all of the model, or there are none.
  void exportWeights(const std::string &path,
                     uint64_t shardBytes = kExportShardBytes,
                     const std::vector<std::string> &without = {},
                     Exported what = Exported::All);

  // For those who write down what a session is made of.

  /// Where the plan's states lie.
  const Arenas &arenas() const;
  /// The artifact's fingerprint.
  const std::string &planHash() const;
  /// That random sequences began at.
  uint64_t seed() const;
  /// The base's learning rate before any schedule, and the schedule in words.
  std::pair<double, std::string> learningRate() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_SESSION_H
