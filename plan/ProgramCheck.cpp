//===- ProgramCheck.cpp - What instructions' rules ask and say ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/ProgramCheck.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "plan/VerifyProgram.h"

#include <cmath>

using namespace fsdp;
using plan::Place;
using plan::ValueT;

void ProgramCheck::refuse(const std::string &what) const {
  refusePlan(where, what);
}

void ProgramCheck::finite(double number) const {
  if (!std::isfinite(number))
    refuse("holds a number that is not finite");
}

const plan::GroupT &ProgramCheck::group(uint32_t index) const {
  if (index >= plan.groups.size())
    refuse("names a group that does not exist");
  return *plan.groups[index];
}

const ValueT &ProgramCheck::value(int64_t index) const {
  if (index < 0 || index >= static_cast<int64_t>(program.values.size()))
    refuse("names value " + name(index) + " of " +
           std::to_string(program.values.size()));
  return *program.values[index];
}

size_t ProgramCheck::root(int64_t index) const {
  const ValueT &v = value(index);
  return v.place == Place::view ? v.base : static_cast<size_t>(index);
}

uint64_t ProgramCheck::room(int64_t index) const {
  const ValueT &v = *program.values[root(index)];
  return v.place == Place::literal ? v.literal.size() : v.bytes;
}

const ValueT &ProgramCheck::contiguous(int64_t index) const {
  const ValueT &v = value(index);
  if (!v.strides.empty())
    refuse("transfers " + name(index) + ", which is not contiguous");
  return v;
}

void ProgramCheck::sameType(int64_t a, int64_t b) const {
  if (value(a).dtype != value(b).dtype || value(a).shape != value(b).shape)
    refuse("expects one type for " + name(a) + " and " + name(b));
}

void ProgramCheck::split(int64_t full, int64_t shard, int32_t dim,
                         const plan::GroupT &group) const {
  if (dim < 0 || static_cast<size_t>(dim) >= value(full).shape.size())
    refuse("splits " + name(full) + " on dim " + std::to_string(dim) +
           ", which it does not have");
  if (shardShape(value(full).shape, dim, group.size) != value(shard).shape)
    refuse("expects " + name(shard) + " to be the shard of " + name(full) +
           " over " + std::to_string(group.size) + " ranks");
}

void ProgramCheck::roomFor(int64_t index, int64_t rows) const {
  const ValueT &v = value(index);
  if (rows == v.shape[0])
    return;
  const ValueT &base = *program.values[root(index)];
  uint64_t element = dtypeBytes(v.dtype);
  std::vector<int64_t> padded = v.shape;
  padded[0] = rows;
  auto needed = checkedExtent(padded, {}, element);
  // A view that is not all of its base might begin behind its first byte.
  bool whole = checkedExtent(v.shape, {}, element) ==
               checkedExtent(base.shape, base.strides, dtypeBytes(base.dtype));
  if (!needed || !whole || *needed > room(index))
    refuse("needs room for " + std::to_string(rows) + " rows behind " +
           name(index));
}
