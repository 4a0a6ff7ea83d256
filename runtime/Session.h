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

#ifndef FSDP_RUNTIME_SESSION_H
#define FSDP_RUNTIME_SESSION_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fsdp {

class Fabric;
class PlanFile;
namespace plan {
struct PlanT;
}

struct SessionOptions {
  /// Folder that the artifact's path of the model file is relative to.
  std::string artifactFolder = ".";
  /// The model file, if it is not where the artifact says.
  std::string modelPath;
  /// Weights files, indices or folders to read first values from in place of
  /// those that the artifact names.
  std::vector<std::string> weightsPaths;
  /// Whether states that have no first value start as zeros, for runs whose
  /// results nobody looks at.
  bool allowMissingValues = false;
  /// A safetensors file with a tensor for each input; rows are samples. Without
  /// it the samples that the model was exported with are used.
  std::string dataPath;
  /// Where random sequences begin; absent: at the artifact's seed.
  std::optional<uint64_t> seed;
  /// Of an artifact with several programs for the inputs' shapes, the one to
  /// run: its name, or what stands in brackets. Empty: what the inputs fit.
  std::string program;
  /// Whether all ranks are threads of this process.
  bool isInProcess = false;
};

/// What all ranks have after a step. A program for inference has a loss only if
/// the model returns one under that name, and neither norm nor rate.
struct StepResult {
  uint64_t step = 0;
  std::optional<double> loss;     ///< mean over the ranks
  std::optional<double> gradNorm; ///< before clipping
  std::optional<double> lr;
  /// Means over the ranks of the other outputs that are floating-point numbers.
  std::vector<std::pair<std::string, double>> metrics;
  std::string program; ///< the one that ran, "train/step"
};

/// An output that was kept (fsdp-opt --output), of one rank's batch.
struct OutputTensor {
  std::string name;           ///< "logits"
  std::string_view dtype;     ///< "f32", "bf16", "i64", …
  std::vector<int64_t> shape; ///< contiguous
  /// In the rank's arena: those of the last step, until the next one begins.
  std::span<const std::byte> bytes;
};

/// Bytes of one rank.
struct MemoryUse {
  uint64_t arena = 0;        ///< all tensors; planned, exact
  uint64_t scratchBound = 0; ///< planned bound of the operators' temporaries
  uint64_t scratch = 0;      ///< most of them so far, measured
  uint64_t staging = 0;      ///< of the transfers' back end
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

  /// Collective: runs the next step.
  StepResult step();

  /// Whether steps train, rather than only compute outputs.
  bool isTraining() const;

  /// The kept outputs, in the order in which the model returns them: of the
  /// program that ran last, or of the first one before any did. The list of a
  /// program stays the same; what the bytes hold changes with each step.
  const std::vector<OutputTensor> &outputs() const;
  /// Throws fsdp::Error (OutputNotKept) that lists what there is.
  const OutputTensor &output(std::string_view name) const;

  /// Gives the input `name` these bytes (contiguous) in all further steps. If
  /// the artifact's programs take it in several shapes, `shape` says which;
  /// each step runs the program that takes the shapes of all inputs. All ranks
  /// set inputs in the same steps, with the same shapes: a rank that differs is
  /// an error on all of them.
  void setInput(const std::string &name, std::span<const std::byte> bytes);
  void setInput(const std::string &name, std::span<const int64_t> shape,
                std::span<const std::byte> bytes);

  /// Samples that all ranks together read in a step.
  int64_t samplesPerStep() const;

  MemoryUse memory() const;

  /// Collective: writes the unsharded parameters, under all their names, and
  /// persistent buffers to a safetensors file, wholly or not at all.
  void exportWeights(const std::string &path);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_H
