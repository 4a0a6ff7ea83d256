//===- Inputs.h - What each step reads --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_INPUTS_H
#define FSDP_RUNTIME_INPUTS_H

#include "runtime/Arena.h"
#include "runtime/ModelFile.h"
#include "runtime/Safetensors.h"
#include "runtime/plan/plan_generated.h"

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace fsdp {

/// Fills a program's inputs. An input takes its rows from the tensor of its
/// name in the data file: step s reads rows (s * W + r) * B to + B, modulo the
/// file's rows, with W ranks that read different rows and B the input's first
/// dim. An input that the file does not have keeps its sample.
class Inputs {
public:
  /// Checks all inputs and loads the samples. `dataPath` may be empty, `model`
  /// null. Throws fsdp::Error: DataMissing, DataShape, DataType,
  /// DataFileInvalid.
  Inputs(const plan::PlanT &plan, const plan::ProgramT &program, int rank,
         const Arena &arena, const ModelFile *model,
         const std::string &dataPath);

  /// Brings the rows of `step` in.
  void load(uint64_t step);

  /// Gives an input `bytes` from now on, in place of file or sample. Throws
  /// fsdp::Error.
  void set(const std::string &name, std::span<const std::byte> bytes);

  /// Rows of the first input that has rows; else 1.
  int64_t batchRows() const;

private:
  struct Source {
    const plan::InputT *input;
    char *to;
    uint64_t bytes;
    const StoredTensor *stored = nullptr; ///< null: what lies there stays
  };

  void checkStored(const plan::InputT &input, const StoredTensor &stored) const;
  void loadSample(const plan::InputT &input, const ModelFile *model, char *to,
                  bool isTold) const;

  std::unique_ptr<SafetensorsFile> file;
  std::vector<Source> sources;
  uint64_t ranks, position;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_INPUTS_H
