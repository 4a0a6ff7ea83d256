//===- Padding.cpp - Keys that data hides from all queries ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/attention/Padding.h"
#include "ir/capture/attention/Calls.h"
#include "ir/capture/attention/MaskParts.h"
#include "ir/capture/meta/Plainly.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>

#include <stdexcept>

using namespace fsdp;
using namespace fsdp::attention;
using at::Tensor;
using capture::Node;
using capture::ValueId;
using meta::MaskForm;
using meta::MaskReading;

/// Whether a part of a mask of these sizes says the same to all queries and
/// heads of a row of the batch.
static bool isOfKeys(const std::vector<int64_t> &sizes, int64_t batch,
                     int64_t keys) {
  if (sizes.empty() || sizes.size() > 4 || sizes.back() != keys)
    return false;
  bool isOne = sizes.size() < 4 || sizes[0] == 1 || sizes[0] == batch;
  for (size_t i = sizes.size() == 4; i + 1 < sizes.size(); ++i)
    isOne &= sizes[i] == 1;
  return isOne;
}

/// The mask itself, or of what it has a row for each query.
static ValueId findRow(const Node *node, ValueId value) {
  bool isWidened = node && nameOf(*node) == "aten::expand";
  return isWidened ? sourceOf(*node) : value;
}

/// Whether rows of the batch, or heads, become other dims.
static bool shiftsDims(const capture::JointGraph &graph, const Node *node,
                       ValueId value) {
  if (!node || !rowKeepers.contains(nameOf(*node)) ||
      nameOf(*node) == "aten::expand" || sourceOf(*node) == capture::kNoValue)
    return false;
  std::vector<int64_t> from = graph.values[sourceOf(*node)].sizes,
                       to = graph.values[value].sizes;
  for (std::vector<int64_t> *sizes : {&from, &to})
    while (sizes->size() < 4)
      sizes->insert(sizes->begin(), 1);
  return from != to;
}

/// Keys are hidden by chance, all of the first row.
static Tensor drawSeen(const std::vector<int64_t> &sizes) {
  Tensor seen = at::randint(0, 4, sizes, at::kLong).ne(0);
  if (sizes.size() == 4 && sizes.front() > 1)
    seen.select(0, 0).fill_(false);
  return seen;
}

/// False if rows of the mask can't be computed.
static bool verify(const capture::JointGraph &graph, const Padding &found,
                   const MaskReading &within, ValueId mask, int64_t keys) {
  ConstantValues assumed(graph);
  Tensor rows, expected;
  {
    meta::Plainly plainly;
    rows = chooseRows(within.begin.size(0),
                      c10::multiply_integers(graph.values[mask].sizes) /
                          within.begin.size(0));
    Tensor key = at::arange(keys);
    expected = (key >= within.begin.index_select(0, rows).unsqueeze(-1)) &
               (key < within.end.index_select(0, rows).unsqueeze(-1));
    for (ValueId each : found.seen) {
      Tensor seen = drawSeen(graph.values[each].sizes);
      assumed.assume(each, seen);
      expected = expected & seen;
    }
  }
  Tensor seen = assumed.getRows(mask, rows);
  if (!seen.defined())
    return false;
  meta::Plainly plainly;
  if (!seen.eq(expected).all().item<bool>())
    throw std::logic_error("a mask's rows are not those of hidden keys");
  return true;
}

std::optional<Padding> attention::findPadding(const capture::JointGraph &graph,
                                              ConstantValues &values,
                                              ValueId mask, int64_t batch,
                                              int64_t queries, int64_t keys) {
  const std::vector<int64_t> &sizes = graph.values[mask].sizes;
  if (queries < 2 || keys < 2 || sizes.size() < 2 || sizes.size() > 4 ||
      sizes.back() != keys || sizes[sizes.size() - 2] != queries)
    return std::nullopt;
  Padding found;
  MaskParts parts(graph, values, queries, keys);
  bool isKnown = parts.takeApart(
      mask, [&](const Node *node, ValueId part) -> std::optional<bool> {
        ValueId row = findRow(node, part);
        if (row == capture::kNoValue || graph.values[row].dtype != at::kBool ||
            !isOfKeys(graph.values[row].sizes, batch, keys))
          return shiftsDims(graph, node, part) ? std::optional(false)
                                               : std::nullopt;
        found.seen.push_back(row);
        return true;
      });
  if (!isKnown || found.seen.empty())
    return std::nullopt;
  MaskReading within = parts.getWithin();
  found.within = within.form;
  bool isTold = within.form == MaskForm::All ||
                (within.form == MaskForm::Causal && queries == keys);
  if (!isTold || !verify(graph, found, within, mask, keys))
    return std::nullopt;
  return found;
}
