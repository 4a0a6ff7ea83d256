//===- Inputs.h - What each step reads --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_INPUTS_H
#define FSDP_RUNTIME_INPUTS_H

#include "runtime/Arena.h"
#include "runtime/ModelFile.h"
#include "runtime/Programs.h"
#include "runtime/plan/plan_generated.h"
#include "runtime/weights/Safetensors.h"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace fsdp {

/// Picks the program whose inputs the data fits, and fills them. An input takes
/// what it was given last, else its rows from the tensor of its name in the
/// data file: behind n rows that all ranks together have read, rank r reads
/// rows n + r * B to + B, modulo the file's rows, with B the input's first dim.
/// An input that the file does not have keeps its sample.
class Inputs {
public:
  /// `dataPath` may be empty,
  /// `model` null. Where the data is known by now, a program is picked; throws
  /// fsdp::Error as `pick` does, and DataFileInvalid.
  Inputs(const plan::PlanT &plan, const StepPrograms &step, int rank,
         const Arena &arena, const ModelFile *model,
         const std::string &dataPath);

  /// The number of the program that takes the inputs as they are. Throws
  /// fsdp::Error if none does, or several: DataMissing, DataShape, DataType,
  /// DataShape.
  size_t pick();

  /// Brings the rows of a micro-batch in, for the program that `pick` returned
  /// in that part of the step. `firstRow`: rows of `batchRows` that all ranks
  /// together have read before; an input with more or fewer rows a batch is as
  /// many batches further.
  void load(uint64_t firstRow, size_t part);
  /// Says that their memory was overwritten: the next load writes all of them.
  void forget() { loaded.reset(); }

  /// Gives an input `bytes` from now on, in place of file or sample. Without a
  /// shape, it is the one that programs give the input with so many bytes.
  /// Throws fsdp::Error (DataMissing, DataShape).
  void set(const std::string &name, std::optional<std::vector<int64_t>> shape,
           std::span<const std::byte> bytes);

  /// Whether `set` was called: the picked program may then change.
  bool isSet() const { return !given.empty(); }

  /// Rows of the picked program's first input that has rows; else 1.
  int64_t batchRows() const;

private:
  /// An input of one program.
  struct Slot {
    const plan::InputT *input;
    uint64_t bytes;
    std::vector<char *> to; ///< by part of the step
  };
  struct Program {
    std::string name;
    std::vector<Slot> slots;
  };
  struct Given {
    std::vector<int64_t> shape;
    std::vector<std::byte> bytes;
    bool isNew = true; ///< not in the arena yet
  };

  const StoredTensor *findStored(const plan::InputT &input) const;
  void check(const plan::InputT &input) const;
  void checkStored(const plan::InputT &input, const StoredTensor &stored) const;
  void copyRows(const Slot &slot, char *to, const StoredTensor &stored,
                uint64_t firstRow) const;
  void warnOfUnused() const;
  [[noreturn]] void refuse(const std::vector<size_t> &fitting,
                           const std::vector<std::string> &reasons) const;

  const ModelFile *model;
  std::unique_ptr<SafetensorsFile> file;
  std::vector<Program> programs;
  std::map<std::string, Given> given;
  std::optional<size_t> picked; ///< as long as nothing changes
  /// Part and program whose unchanging inputs lie in the arena.
  std::optional<std::pair<size_t, size_t>> loaded;
  uint64_t position; ///< among the ranks that read different rows
  bool isTold;       ///< rank 0 speaks for all
};

/// "x: f32[4, 5], y: i64[4]" of a program's inputs.
std::string describeInputs(const plan::PlanT &plan,
                           const plan::ProgramT &program);

} // namespace fsdp

#endif // FSDP_RUNTIME_INPUTS_H
