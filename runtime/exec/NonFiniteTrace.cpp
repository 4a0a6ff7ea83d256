//===- NonFiniteTrace.cpp - Where a NaN comes from ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/NonFiniteTrace.h"

#include "plan/Instructions.h"

#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

using namespace fsdp;

NonFiniteKinds fsdp::findNonFinite(const at::Tensor &tensor) {
  if (!tensor.defined() || tensor.numel() == 0 ||
      !(tensor.is_floating_point() || tensor.is_complex()))
    return {};
  c10::InferenceMode guard;
  // Types of eight bits have no kernels that look.
  at::Tensor looked =
      c10::isFloat8Type(tensor.scalar_type()) ? tensor.to(c10::kFloat) : tensor;
  return {at::isnan(looked).any().item<bool>(),
          at::isinf(looked).any().item<bool>()};
}

NonFiniteTrace::NonFiniteTrace(const plan::ProgramT &program,
                               std::span<const at::Tensor> values)
    : program(program), values(values) {}

NonFiniteTrace::Found
NonFiniteTrace::check(const std::vector<uint32_t> &list) const {
  Found found;
  for (uint32_t value : list)
    if (NonFiniteKinds what = findNonFinite(values[value]))
      found.emplace_back(value, what);
  return found;
}

void NonFiniteTrace::before(uint32_t index) {
  reads = check(valuesOf(*program.instructions[index], fsdp::reads));
}

void NonFiniteTrace::after(uint32_t index) {
  const plan::InstructionT &instruction = *program.instructions[index];
  std::vector<uint32_t> written = valuesOf(instruction, writes);
  if (std::optional<Flight> flight = flightOf(instruction)) {
    started[flight->future] = {std::move(written), std::move(reads)};
    return;
  }
  bool isWait = instruction.body.type == plan::Body::Wait;
  if (isWait)
    std::tie(written, reads) =
        std::move(started[instruction.body.AsWait()->future]);
  if (Found found = check(written); !found.empty())
    records.push_back({index, isWait, std::move(reads), std::move(found)});
  reads.clear();
}

/// The last of the first `end` records that wrote into what `value` lies in.
const NonFiniteTrace::Record *NonFiniteTrace::findWriter(uint32_t value,
                                                         size_t end) const {
  uint32_t root = rootOf(program, value);
  while (end-- > 0)
    for (const auto &[written, what] : records[end].writes)
      if (rootOf(program, written) == root)
        return &records[end];
  return nullptr;
}

std::optional<NonFiniteTrace::Origin>
NonFiniteTrace::follow(uint32_t value, size_t end, NonFiniteKinds what,
                       std::vector<bool> &seen) const {
  const Record *record = findWriter(value, end);
  if (!record) {
    // A constant is meant to be what it is.
    if (program.values[rootOf(program, value)]->place == plan::Place::literal)
      return std::nullopt;
    return Origin{Origin::given, 0, value, what, {}};
  }
  size_t number = static_cast<size_t>(record - records.data());
  if (seen[number])
    return std::nullopt;
  seen[number] = true;
  std::optional<Origin> first;
  bool hasRead = false, hasInfinity = false;
  for (const auto &[read, held] : record->reads) {
    hasInfinity |= held.infinity;
    if (what.nan ? !held.nan : !held.infinity)
      continue;
    hasRead = true;
    NonFiniteKinds kept{what.nan, !what.nan};
    std::optional<Origin> origin = follow(read, number, kept, seen);
    if (origin && (!first || origin->isBefore(*first)))
      first = origin;
  }
  if (hasRead)
    return first;
  Origin made{record->isReceived ? Origin::received : Origin::computed,
              record->instruction,
              value,
              what,
              {}};
  if (what.nan && hasInfinity)
    for (const auto &[read, held] : record->reads) {
      std::vector<bool> own(records.size(), false);
      std::optional<Origin> source = follow(read, number, {false, true}, own);
      if (source && source->kind == Origin::computed)
        made.infinity = source->instruction;
    }
  return made;
}

std::optional<NonFiniteTrace::Origin>
NonFiniteTrace::findOrigin(uint32_t value) const {
  NonFiniteKinds what = findNonFinite(values[value]);
  if (!what)
    return std::nullopt;
  std::vector<bool> seen(records.size(), false);
  return follow(value, records.size(), what, seen);
}
