//===- MaskParts.cpp - Masks that say several things at once --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/attention/MaskParts.h"
#include "ir/capture/attention/Calls.h"
#include "ir/capture/meta/Plainly.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

using namespace fsdp;
using namespace fsdp::attention;
using at::Tensor;
using capture::kNoValue;
using capture::Node;
using capture::ValueId;
using meta::MaskForm;
using meta::MaskReading;

static const std::unordered_set<std::string_view> conjunctions = {
    "aten::__and__", "aten::bitwise_and", "aten::logical_and"};

bool MaskParts::takeApart(ValueId mask, const Take &take) {
  if (mask == kNoValue || !seen.insert(mask).second)
    return mask != kNoValue;
  if (values.isConstant(mask))
    return restrict(mask);
  if (graph.values[mask].dtype != at::kBool)
    return false;
  const Node *node = producers.find(mask);
  if (std::optional<bool> isTaken = take(node, mask))
    return *isTaken;
  if (!node)
    return false;
  if (conjunctions.contains(nameOf(*node)) && node->arguments.size() == 2)
    return takeApart(operandOf(*node, 0), take) &&
           takeApart(operandOf(*node, 1), take);
  return isMoved(*node, mask) && takeApart(sourceOf(*node), take);
}

MaskReading MaskParts::getWithin() const {
  if (within.begin.defined())
    return within;
  meta::Plainly plainly;
  return {MaskForm::All, at::zeros({queries}, at::kLong),
          at::full({queries}, keys, at::kLong)};
}

/// Whether the value is its operand with other dims in front of the last two.
bool MaskParts::isMoved(const Node &node, ValueId value) const {
  ValueId source = sourceOf(node);
  if (source == kNoValue || graph.values[source].dtype != at::kBool)
    return false;
  const std::vector<int64_t> &from = graph.values[source].sizes,
                             &to = graph.values[value].sizes;
  if (nameOf(node) == "aten::slice")
    return from == to;
  if (!rowKeepers.contains(nameOf(node)) || from.size() < 2 || to.size() < 2)
    return false;
  if (nameOf(node) != "aten::expand")
    return withoutOnes(from) == withoutOnes(to);
  return from.back() == to.back() && from[from.size() - 2] == to[to.size() - 2];
}

bool MaskParts::restrict(ValueId value) {
  MaskReading reading;
  // What stands for all rows, or all columns, may hide nothing.
  const std::vector<int64_t> &sizes = graph.values[value].sizes;
  if (sizes.size() < 2 || sizes.back() != keys ||
      sizes[sizes.size() - 2] != queries) {
    Tensor all = values.getWhole(value);
    meta::Plainly plainly;
    return all.defined() && all.scalar_type() == at::kBool &&
           all.all().item<bool>();
  }
  {
    meta::Plainly plainly;
    reading = readMask(values, value, queries, keys);
  }
  if (reading.form == MaskForm::Unknown)
    return false;
  meta::Plainly plainly;
  within = within.begin.defined() ? intersect(within, reading, keys) : reading;
  return within.form != MaskForm::Unknown;
}
