//===- Inputs.h - What each step reads --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_SESSION_INPUTS_H
#define FSDP_RUNTIME_SESSION_INPUTS_H

#include "plan/plan_generated.h"
#include "runtime/data/Batches.h"
#include "runtime/data/RunData.h"
#include "runtime/device/Arena.h"
#include "runtime/exec/Device.h"
#include "runtime/session/IndexBounds.h"
#include "runtime/session/Programs.h"
#include "runtime/session/Session.h"
#include "runtime/states/ModelFile.h"
#include "support/Error.h"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace fsdp {

/// What inputs are filled with, where a caller gives them nothing.
struct InputSources {
  /// Null, or what has samples of the inputs.
  const ModelFile *model = nullptr;
  RunData data; ///< names the files, if there are any
  /// Whether inputs that have no data and no sample are zeros.
  bool allowMissing = false;
  /// Above 0: a step reads so many batches whatever the world, one after the
  /// other, and a load brings in the one whose first row is given.
  uint64_t grains = 0;
  /// Of a step, where there are no grains.
  uint64_t microBatches = 1;
};

/// Picks the program whose inputs the data fits, and fills them. Where rows
/// have lengths of their own, it is for each step the shortest one that they
/// fit. An input takes what it was given last, else its rows of the data, else
/// its sample. Rows are counted as all ranks read them together: of the rows
/// from `firstRow` of the data's order (RowOrder) on, rank r reads those from r
/// * B on, B being the first dim of the program's first input that has one.
class Inputs {
public:
  /// For the programs of some entries that take the same inputs, by part of the
  /// step. Where the data is known by now, a program is picked; throws
  /// fsdp::Error as `pick` does, as openData, and DataNotKnown if the data has
  /// what no input takes.
  Inputs(const plan::PlanT &plan,
         std::span<const std::vector<const plan::ProgramT *>> parts, int rank,
         const Arena &arena, Device &device, const InputSources &sources);

  /// The number of the program that takes the inputs as they are, in the step
  /// that reads the row `firstRow`. Throws
  /// fsdp::Error if none does, or several: DataNotNamed, DataMissing,
  /// DataShape, DataType, and as Batches.
  size_t pick(uint64_t firstRow);

  /// Says that a step begins at `firstRow`; else one does at 0.
  void beginStepsAt(uint64_t firstRow);

  /// Brings in the micro-batch whose first row of all ranks' is `firstRow`, for
  /// the program that `pick` returned in that part of the step; meanwhile the
  /// next ones are read ahead. Throws fsdp::Error (DataType) for indices that
  /// are out of range (IndexBounds).
  void load(uint64_t firstRow, size_t part);
  /// Begins to bring the rows that a `load` of `firstRow` will need to a
  /// device; nothing on the host.
  void loadAhead(uint64_t firstRow);
  /// Says that their memory was overwritten: the next load writes all of them.
  void forget() { loaded.reset(); }

  /// Gives an input `bytes` from now on, in place of data or sample. Without a
  /// shape, it is the one that programs give the input with so many bytes.
  /// Throws fsdp::Error (DataMissing, DataShape).
  void set(const std::string &name, std::optional<std::vector<int64_t>> shape,
           std::span<const std::byte> bytes);

  /// The same for the next `load` alone, which reads the caller's bytes; one
  /// behind it that is lent nothing is an error (DataMissing).
  void lend(std::span<const GivenInput> inputs);
  /// Forgets what was lent: inputs are read again.
  void withdraw();

  /// Whether `set` was called: the picked program may then change.
  bool isSet() const { return !given.empty(); }

  /// Whether a step's rows choose among programs.
  bool isChoosing() const { return batches && batches->isChoosing(); }
  /// How many labels of all rows of the step that reads that row count; absent
  /// where nobody asks for them (`label_count`).
  std::optional<uint64_t> countLabels(uint64_t firstRow) const;

  /// Rows of the picked programs' first input that has rows; else 1.
  int64_t batchRows() const;
  /// Rows that all ranks together read in a micro-batch.
  uint64_t globalRows() const {
    return static_cast<uint64_t>(batchRows()) * ranks;
  }

  /// The data's files.
  std::vector<std::string> paths() const;
  /// Of the lengths of the data's rows; empty: they have none of their own.
  std::string lengthsHash() const;
  /// Rows of an epoch; absent if no data is read.
  std::optional<uint64_t> dataRows() const;
  /// Says on rank 0 if the data has fewer rows than a step of so many
  /// micro-batches reads.
  void warnOfFewRows(uint64_t microBatches) const;
  /// Steps of so many micro-batches for which there is data from `firstRow` on;
  /// absent: there is no end.
  std::optional<uint64_t> stepsFrom(uint64_t firstRow,
                                    uint64_t microBatches) const;
  /// Bytes that batches read ahead take.
  uint64_t memory() const {
    return (batches ? batches->memory() : 0) + (ahead ? ahead->memory() : 0);
  }

private:
  /// An input of one program.
  struct Slot {
    const plan::InputT *input;
    uint64_t bytes;
    std::vector<uint64_t> to; ///< offset, by part of the step
  };
  struct Program {
    std::string name;
    std::vector<Slot> slots;
  };
  struct Given {
    std::vector<int64_t> shape;
    std::vector<std::byte> own;
    std::span<const std::byte> bytes; ///< `own`, or the caller's until a load
    bool isLent = false;
    bool isNew = true; ///< not in the arena yet
  };

  /// The entry of what a caller gives, with a shape that programs take.
  Given &give(const std::string &name,
              const std::optional<std::vector<int64_t>> &shape, size_t bytes);
  void check(const plan::InputT &input) const;
  void checkLabelCount(const plan::InputT &input) const;
  void findFitting();
  bool isLabelCount(const plan::InputT &input) const {
    return !data.label_count.empty() && input.name == data.label_count;
  }
  void writeLabelCount(const plan::InputT &input, uint64_t to,
                       uint64_t firstRow) const;
  void checkTensors(const plan::PlanT &plan);
  bool isRead(const Slot &slot) const;
  void openBatches();
  void checkRows(const plan::InputT &input, std::span<const std::byte> bytes,
                 size_t ofRead, uint64_t firstRow) const;
  [[noreturn]] void refuse(const std::vector<size_t> &fitting,
                           const std::vector<std::string> &reasons) const;

  const Arena &arena;
  const IndexBounds bounds;
  const ModelFile *model;
  const RunData data;
  const bool allowMissing;
  const std::unique_ptr<RowSource> source;
  std::vector<std::string> sourceNames; ///< inputs that it has rows for
  std::vector<Program> programs;
  std::map<std::string, Given> given;
  /// Programs that the inputs fit, as long as nothing changes; several where
  /// `batches` chooses.
  std::vector<size_t> fitting;
  /// Of these programs' inputs that are read, in their order.
  std::optional<Batches> batches;
  const std::unique_ptr<AheadWriter> ahead;
  std::optional<uint64_t> onTheirWay; ///< first row of what `ahead` brings
  /// Part and program whose unchanging inputs lie in the arena.
  std::optional<std::pair<size_t, size_t>> loaded;
  std::set<const plan::InputT *> checkedSamples;
  uint64_t ranks, position; ///< of those that read different rows; 1 and 0
                            ///< where rows are read by grains
  uint64_t stride;          ///< batches from one load to the next
  uint64_t stepBatches;     ///< that all ranks together read
  uint64_t stepBegin = 0;   ///< a row that a step begins with
  bool isTold;              ///< rank 0 speaks for all
};

/// That nothing says what inputs are filled with (DataNotNamed).
Error noData();

/// "x: f32[4, 5], y: i64[4]" of a program's inputs.
std::string describeInputs(const plan::PlanT &plan,
                           const plan::ProgramT &program);

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_INPUTS_H
