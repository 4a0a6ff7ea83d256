//===- WeightReader.h - First values out of weights files -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_STATES_WEIGHTREADER_H
#define FSDP_RUNTIME_STATES_WEIGHTREADER_H

#include "plan/plan_generated.h"
#include "runtime/weights/CodedWeights.h"
#include "runtime/weights/WeightFiles.h"
#include "support/ReadOnlyFile.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// The safetensors files that states of an artifact take their first values
/// from, open for reading.
class WeightReader {
public:
  /// With `paths` (see WeightFiles) every state is looked up there by its
  /// names; without, files are where `plan` says, relative to `folder`. Files
  /// are checked and opened, all states are found. States that the plan knows
  /// by name alone have no value without `paths`: an error, unless
  /// `allowMissing`. Throws fsdp::Error: FileNotReadable, WeightsInvalid,
  /// WeightsMissing, WeightsMismatch, WeightsChanged, NoFirstValue.
  WeightReader(const plan::PlanT &plan, const std::string &folder,
               const std::vector<std::string> &paths, bool allowMissing);

  /// Whether the state's first value is in the files: also of adapters that the
  /// compiler put in and that have another one, if files that are given have
  /// them by PEFT's names.
  bool has(const plan::StateT &state) const { return sources.contains(&state); }

  /// Elements [first, first + count) of the tensor of the model that `state` is
  /// or is a part of, row-major, converted to its type (modelDType), at `to`;
  /// zeros if it is missing. Holds a few MiB beside them.
  void readElements(const plan::StateT &state, uint64_t first, uint64_t count,
                    void *to) const;

  /// Whether the files have the state's tensor in the blocks of codes that a
  /// state of that form holds.
  bool hasRows(const plan::StateT &state, const BlockForm &form) const;
  /// These rows [first, first + count), bit by bit.
  void readRows(const plan::StateT &state, int64_t first, int64_t count,
                uint8_t *to) const;
  /// Says what is read of codes, and what becomes of them: a warning where that
  /// rounds again.
  void logCodes() const;

private:
  struct Source {
    const ReadOnlyFile *file;
    uint64_t offset; ///< of the first element
    plan::DType dtype;
    std::optional<CodedWeight> coded;
  };

  void openPlanned(const plan::PlanT &plan, const std::string &folder,
                   bool allowMissing);
  /// Those that the plan knows for codes, with what lies beside them.
  void findCodes(const plan::PlanT &plan);
  void openGiven(const plan::PlanT &plan,
                 const std::vector<std::string> &paths);
  void findAdapters(const plan::PlanT &plan, const WeightFiles &weights);
  void take(const plan::PlanT &plan, const plan::StateT &state,
            const WeightFiles &weights, const WeightFiles::Tensor &tensor,
            const std::string &name);

  std::vector<std::unique_ptr<ReadOnlyFile>> files;
  std::map<const plan::StateT *, Source> sources;
};

/// Whether first values of states that `isWanted` may be in weights files;
/// `areGiven`: others than those of the plan, if any.
bool needsWeights(const plan::PlanT &plan,
                  const std::function<bool(const plan::StateT &)> &isWanted,
                  bool areGiven);
/// Whether any state's may be in files that are given.
bool takesWeights(const plan::PlanT &plan);

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_WEIGHTREADER_H
