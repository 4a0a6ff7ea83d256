//===- States.cpp - First values of states and inputs ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/States.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "runtime/device/DTypes.h"
#include "runtime/exec/Transfers.h"
#include "runtime/weights/Initializer.h"
#include "support/Error.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>

using namespace fsdp;

OwnRows fsdp::ownRows(const plan::PlanT &plan, const plan::StateT &state,
                      int rank) {
  OwnRows rows;
  auto dim = static_cast<size_t>(std::max(state.shard_dim, 0));
  rows.all = state.shape.empty() ? 1 : state.shape[dim];
  rows.rowBytes = dtypeBytes(state.dtype);
  for (size_t i = 0; i < state.shape.size(); ++i)
    if (i < dim)
      rows.outer *= state.shape[i];
    else if (i > dim)
      rows.rowBytes *= static_cast<uint64_t>(state.shape[i]);
  if (state.shard_dim < 0) {
    rows.count = rows.room = rows.all;
    return rows;
  }
  const plan::GroupT &group = *plan.groups[state.group];
  rows.room = shardRows(rows.all, group.size);
  rows.first = std::min(groupPosition(group, rank) * rows.room, rows.all);
  rows.count = std::min(rows.room, rows.all - rows.first);
  return rows;
}

Overlap fsdp::overlapOf(const plan::StateT &member, uint64_t first,
                        uint64_t count) {
  uint64_t begin = member.flat_offset, end = begin;
  if (auto elements = checkedElements(member.shape))
    end += *elements;
  uint64_t from = std::max(begin, first), to = std::min(end, first + count);
  if (from >= to)
    return {};
  return {from - begin, to - from, from - first};
}

uint64_t fsdp::flatPart(const plan::PlanT &plan, const plan::StateT &flat) {
  return static_cast<uint64_t>(flat.shape[0]) / plan.groups[flat.group]->size;
}

bool fsdp::needsModelFile(const plan::PlanT &plan) {
  auto hasSource = [](const auto &state) { return state->source != nullptr; };
  auto hasSample = [](const auto &input) { return input->sample != nullptr; };
  return std::any_of(plan.states.begin(), plan.states.end(), hasSource) ||
         std::any_of(plan.inputs.begin(), plan.inputs.end(), hasSample);
}

void fsdp::setSeed(const plan::PlanT &plan, const Arenas &arenas,
                   uint64_t seed) {
  for (const auto &state : plan.states)
    if (state->role == plan::Role::random) {
      uint64_t first[] = {seed, 0};
      arenas.of(*state).write(state->offset, first, sizeof(first));
    }
}

/// What is computed at once where it is rounded to a narrower type.
static constexpr uint64_t kBlockElements = 1 << 16;

/// Elements [first, first + count) of the unsharded state.
static void initialize(const plan::StateT &state, uint64_t seed, uint64_t first,
                       uint64_t count, char *to) {
  const plan::InitializerT &init = *state.initializer;
  InitialTensor tensor{state.name, state.shape, seed};
  if (state.dtype == plan::DType::f64)
    return computeElements<double>(init, tensor, first,
                                   {reinterpret_cast<double *>(to), count});
  if (state.dtype == plan::DType::f32)
    return computeElements<float>(init, tensor, first,
                                  {reinterpret_cast<float *>(to), count});
  std::vector<float> wide(std::min(count, kBlockElements));
  for (uint64_t done = 0; done < count;) {
    uint64_t block = std::min(kBlockElements, count - done);
    computeElements<float>(init, tensor, first + done, {wide.data(), block});
    auto size = static_cast<int64_t>(block);
    at::from_blob(to + done * dtypeBytes(state.dtype), {size},
                  toScalarType(state.dtype))
        .copy_(at::from_blob(wide.data(), {size}, at::kFloat));
    done += block;
  }
}

namespace {

/// Reads first values of one state, in the order of its unsharded elements.
class FirstValues {
public:
  FirstValues(const plan::PlanT &plan, const plan::StateT &state,
              const ModelFile *model, const WeightReader *weights,
              RecordChecks *checks)
      : plan(plan), state(state), model(model), weights(weights),
        checks(checks) {
    for (size_t i = 1; i < state.shape.size(); ++i)
      rowElements *= static_cast<uint64_t>(state.shape[i]);
  }

  uint64_t rowBytes() const { return rowElements * dtypeBytes(state.dtype); }

  /// Rows of the first dim.
  void readRows(int64_t first, int64_t count, char *to) const {
    read(static_cast<uint64_t>(first) * rowElements,
         static_cast<uint64_t>(count) * rowElements, to);
  }

  /// Elements [first, first + count).
  void read(uint64_t first, uint64_t count, char *to) const {
    uint64_t bytes = count * dtypeBytes(state.dtype);
    if (state.source) {
      readStored(first, count, to);
    } else if (state.weight) {
      weights->readElements(state, first, count, to);
    } else if (state.initializer) {
      initialize(state, plan.training->seed, first, count, to);
    } else if (state.init.empty()) {
      std::memset(to, 0, bytes);
    } else {
      for (uint64_t at = 0; at < bytes; at += state.init.size())
        std::memcpy(to + at, state.init.data(), state.init.size());
    }
  }

private:
  void readStored(uint64_t first, uint64_t count, char *to) const {
    if (count == 0)
      return;
    if (state.source->strides.empty()) {
      auto all = static_cast<int64_t>(*checkedElements(state.shape));
      model->readRows(*state.source, {all}, state.dtype,
                      static_cast<int64_t>(first), static_cast<int64_t>(count),
                      to);
      if (checks)
        checks->note(state, first * dtypeBytes(state.dtype),
                     count * dtypeBytes(state.dtype), to);
      return;
    }
    // Whole rows in one go; of the first and the last one what is asked for.
    uint64_t element = dtypeBytes(state.dtype);
    uint64_t begin = (first + rowElements - 1) / rowElements;
    uint64_t end = (first + count) / rowElements;
    if (begin < end)
      readStoredRows(begin, end - begin,
                     to + (begin * rowElements - first) * element);
    std::vector<char> row;
    auto readPart = [&](uint64_t number) {
      row.resize(rowBytes());
      readStoredRows(number, 1, row.data());
      uint64_t from = std::max(first, number * rowElements);
      uint64_t until = std::min(first + count, (number + 1) * rowElements);
      std::memcpy(to + (from - first) * element,
                  row.data() + (from - number * rowElements) * element,
                  (until - from) * element);
    };
    if (begin * rowElements != first)
      readPart(begin - 1);
    if (end >= begin && end * rowElements != first + count)
      readPart(end);
  }

  void readStoredRows(uint64_t first, uint64_t count, char *to) const {
    model->readRows(*state.source, state.shape, state.dtype,
                    static_cast<int64_t>(first), static_cast<int64_t>(count),
                    to);
  }

  const plan::PlanT &plan;
  const plan::StateT &state;
  const ModelFile *model;
  const WeightReader *weights;
  RecordChecks *checks;
  uint64_t rowElements = 1;
};

} // namespace

/// What a rank reads at once of a tensor that is not cut along its first dim.
static constexpr uint64_t kBlockBytes = 8 << 20;

/// Cuts the rank's rows out of whole rows of the first dim.
static void readInner(const FirstValues &source, const OwnRows &rows,
                      int64_t firstDim, char *to) {
  if (firstDim == 0 || source.rowBytes() == 0)
    return;
  int64_t runs = rows.outer / firstDim; // of each row of the first dim
  int64_t block = std::clamp<int64_t>(
      static_cast<int64_t>(kBlockBytes / source.rowBytes()), 1, firstDim);
  std::vector<char> buffer(static_cast<uint64_t>(block) * source.rowBytes());
  uint64_t own = static_cast<uint64_t>(rows.count) * rows.rowBytes;
  uint64_t room = static_cast<uint64_t>(rows.room) * rows.rowBytes;
  uint64_t full = static_cast<uint64_t>(rows.all) * rows.rowBytes;
  for (int64_t first = 0; first < firstDim; first += block) {
    int64_t count = std::min(block, firstDim - first);
    source.readRows(first, count, buffer.data());
    const char *from =
        buffer.data() + static_cast<uint64_t>(rows.first) * rows.rowBytes;
    for (int64_t run = 0; run < count * runs; ++run) {
      std::memcpy(to, from, own);
      std::memset(to + own, 0, room - own);
      from += full;
      to += room;
    }
  }
}

void fsdp::loadStates(const plan::PlanT &plan, int rank, const Arenas &arenas,
                      const ModelFile *model, const WeightReader *weights,
                      const std::function<bool(const plan::StateT &)> &isWanted,
                      RecordChecks *checks) {
  for (const auto &state : plan.states)
    if (state->layout == plan::Layout::flat)
      arenas.of(*state).fill(state->offset, 0, state->bytes);
  for (const auto &state : plan.states) {
    if (state->layout == plan::Layout::flat || !isWanted(*state))
      continue;
    FirstValues source(plan, *state, model, weights, checks);
    if (state->flat >= 0) {
      const plan::StateT &flat = *plan.states[state->flat];
      uint64_t part = flatPart(plan, flat);
      int64_t position = groupPosition(*plan.groups[flat.group], rank);
      Overlap own =
          overlapOf(*state, static_cast<uint64_t>(position) * part, part);
      uint64_t element = dtypeBytes(flat.dtype);
      BytesToWrite to(arenas.of(flat), flat.offset + own.at * element,
                      own.count * element);
      source.read(own.first, own.count, to.data());
      to.flush();
      continue;
    }
    OwnRows rows = ownRows(plan, *state, rank);
    auto outer = static_cast<uint64_t>(rows.outer);
    uint64_t room = static_cast<uint64_t>(rows.room) * rows.rowBytes;
    BytesToWrite to(arenas.of(*state), state->offset, outer * room);
    if (state->shard_dim > 0) {
      readInner(source, rows, state->shape[0], to.data());
    } else {
      uint64_t bytes = static_cast<uint64_t>(rows.count) * rows.rowBytes;
      source.readRows(rows.first, rows.count, to.data());
      std::memset(to.data() + bytes, 0, room - bytes);
    }
    to.flush();
  }
}
