//===- FirstValues.h - Elements of a state's first value --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_STATES_FIRSTVALUES_H
#define FSDP_RUNTIME_STATES_FIRSTVALUES_H

#include "plan/plan_generated.h"
#include "runtime/states/ModelFile.h"
#include "runtime/states/RecordChecks.h"
#include "runtime/states/Regions.h"
#include "runtime/states/WeightReader.h"

#include <cstdint>
#include <span>
#include <vector>

namespace at {
class Tensor;
} // namespace at

namespace fsdp {

class AdapterStarts;
struct BlockForm;

/// The first value of one state, wherever it comes from, as the model's tensor
/// (wholeShape), or as the blocks of codes of that. What it names outlives it.
class FirstValues {
public:
  /// `model` may be null if the state has no source, `weights` if it has no
  /// weight; `checks`, if not null, are told what is read of the model file;
  /// `starts` may be null if nothing begins with numbers of an adapter's base.
  FirstValues(const plan::PlanT &plan, const plan::StateT &state,
              const ModelFile *model, const WeightReader *weights,
              RecordChecks *checks, const AdapterStarts *starts = nullptr);

  /// The elements of `region`, the first one to `to`, the others behind it by
  /// `strides`, in elements. Holds some MiB. Throws fsdp::Error.
  void read(const Region &region, std::span<const int64_t> strides,
            char *to) const;

  /// Whether the state's codes are those of a file, bit by bit.
  bool isAsCoded() const;

  /// All of the model's tensor, in its type.
  at::Tensor readWhole() const;

private:
  uint64_t rowBytes() const { return rowElements * element; }
  void readQuantized(const Region &region, std::span<const int64_t> strides,
                     char *to) const;
  void readWidened(const Region &region, std::span<const int64_t> strides,
                   char *to) const;
  void readPlain(const Region &region, std::span<const int64_t> strides,
                 char *to) const;
  void readBlocks(const Region &region, std::span<const int64_t> strides,
                  char *to) const;
  void readRun(uint64_t first, uint64_t count, char *to) const;
  void readStrided(uint64_t first, uint64_t count, char *to) const;
  void copyInit(uint64_t first, uint64_t count, char *to) const;
  /// Tells `checks` of what was read, and makes the first value of it.
  void finish(uint64_t first, uint64_t count, char *data) const;
  /// Takes off what the state begins without.
  void adjust(uint64_t first, uint64_t count, char *data) const;
  /// What coded scales of the tensor are relative to.
  float findOffset(const BlockForm &form) const;

  /// Whether weights files have it, whatever else says where it begins.
  bool isOfWeights() const { return weights && weights->has(state); }

  const plan::PlanT &plan;
  const plan::StateT &state;
  const ModelFile *model;
  const WeightReader *weights;
  RecordChecks *checks;
  const AdapterStarts *starts;
  const plan::DType dtype;            ///< of the model's tensor,
  const std::vector<int64_t> shape;   ///< whose shape this is,
  const std::vector<int64_t> strides; ///< row-major
  const uint64_t element;             ///< bytes of one
  uint64_t rowElements = 1;           ///< of a row of the first dim
};

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_FIRSTVALUES_H
