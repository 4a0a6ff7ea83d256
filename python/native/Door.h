//===- Door.h - An artifact as a Python program uses it ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What fsdp_opt.Session does, without Python: batches of all ranks of this
// process are cut into what each one reads, and their outputs put together.
// Rows are those of the first dim. A batch has the rows of all micro-batches of
// a step, one micro-batch behind the other, of which each has the rows of all
// ranks of this process: those of ranks that compute a step together once.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PYTHON_NATIVE_DOOR_H
#define FSDP_PYTHON_NATIVE_DOOR_H

#include "runtime/launch/OpenRun.h"
#include "runtime/session/IndexBounds.h"
#include "runtime/states/ExportedStates.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// What a step takes.
struct DoorInput {
  std::string name;
  std::string dtype; ///< "f32"
  /// Of one rank's micro-batch; several if programs differ in it.
  std::vector<std::vector<int64_t>> shapes;
};

/// A tensor of the model that exports have.
struct DoorState {
  std::vector<std::string> names; ///< tied parameters have several
  std::string dtype;
  std::vector<int64_t> shape; ///< of the whole tensor
};

/// What a caller gives: contiguous, lives during the call.
struct LentTensor {
  std::string name;
  std::string_view dtype;
  std::vector<int64_t> shape;
  const std::byte *data;
};

/// An output of all ranks of this process.
struct JoinedOutput {
  std::string name;
  std::string_view dtype;
  std::vector<int64_t> shape;
  std::unique_ptr<std::byte[]> data;
};

struct DoorStep {
  StepResult result;
  std::vector<JoinedOutput> outputs; ///< those that were kept
};

/// Used by one thread at a time. All methods throw fsdp::Error: what is wrong
/// with a caller's tensors before any rank begins, so that the run goes on.
class Door {
public:
  explicit Door(const LaunchOptions &options);
  ~Door();

  // What never changes.
  int rank() const { return first; } ///< the first one of this process
  int ranks() const { return here; } ///< of this process
  int worldSize() const { return world; }
  /// Ranks of the world that read different rows, those of this process among
  /// them, and which of all is the first one's place.
  int dataParallel() const { return data; }
  int dataParallelHere() const { return dataHere; }
  int dataRank() const { return dataFirst; }
  uint64_t microBatches() const { return parts; }
  bool isTraining() const { return trains; }
  const std::vector<DoorInput> &inputs() const { return taken; }
  const std::vector<std::string> &outputs() const { return kept; }

  const std::vector<DoorState> &states() const { return model; }

  /// Takes a step: with rows of the data, if there are no tensors.
  DoorStep step(std::span<const LentTensor> batch);
  /// The loss of a batch that has one micro-batch.
  double evaluate(std::span<const LentTensor> batch);
  /// The loss over the files that the artifact or the options name.
  EvalResult evaluate();
  /// From now on an input has this value, of a single rank's shape, on all
  /// ranks and in all micro-batches.
  void hold(const LentTensor &tensor);

  /// Writes a checkpoint, `step_N` in the folder, and keeps `keep` of them (0:
  /// all). `isWaiting`: until it is on the disk. Returns its path.
  std::string save(const std::string &folder, uint64_t keep, bool isWaiting);
  void load(const std::string &path, bool isOwn);
  void exportWeights(const std::string &path, uint64_t shardBytes,
                     Exported what);

  /// The greatest of all processes' numbers.
  uint64_t findGreatest(uint64_t number);

  uint64_t stepsDone() const;
  MemoryUse memory() const;
  /// With a reason: other processes' ranks learn that this one gave up.
  void close(const std::string &reason);
  bool isOpen() const { return run.isOpen(); }

private:
  const DoorInput &find(const std::string &name) const;
  /// The shape of one rank's micro-batch, `pieces` of which make the tensor.
  std::vector<int64_t> shapeOfPart(const LentTensor &tensor,
                                   uint64_t pieces) const;
  /// Throws fsdp::Error (DataType), as IndexBounds.
  void checkIndices(const LentTensor &tensor, const std::vector<int64_t> &shape,
                    uint64_t pieces) const;
  void checkComplete(std::span<const LentTensor> batch, uint64_t pieces) const;
  std::string describe(const DoorInput &input, uint64_t pieces) const;
  Session &session() const;

  OpenRun run;
  int first, here, world, data, dataHere, dataFirst;
  uint64_t parts;
  bool trains, hasData;
  std::vector<DoorInput> taken;
  std::vector<std::string> kept;
  std::vector<DoorState> model;
  std::optional<IndexBounds> bounds;
  std::set<std::string> held;
  std::string folder; ///< that is saved to
  uint64_t keeps = 0, folders = 0;
};

} // namespace fsdp

#endif // FSDP_PYTHON_NATIVE_DOOR_H
