//===- Documents.cpp - Masks that keep documents apart --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/attention/Documents.h"
#include "ir/capture/attention/Calls.h"
#include "ir/capture/attention/MaskParts.h"
#include "ir/capture/meta/Plainly.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>

#include <stdexcept>

using namespace fsdp;
using namespace fsdp::attention;
using at::Tensor;
using capture::kNoValue;
using capture::Node;
using capture::ValueId;
using meta::MaskForm;
using meta::MaskReading;

namespace {

/// Finds by which numbers a mask keeps positions apart.
class Finder {
public:
  Finder(const capture::JointGraph &graph, ConstantValues &values,
         int64_t length)
      : graph(graph), values(values), producers(graph), length(length) {}

  std::optional<Documents> find(ValueId mask) {
    MaskParts parts(graph, values, length, length);
    bool isKnown = parts.takeApart(
        mask, [&](const Node *node, ValueId) -> std::optional<bool> {
          if (!node || nameOf(*node) != "aten::eq" ||
              node->arguments.size() != 2)
            return std::nullopt;
          return compare(operandOf(*node, 0), operandOf(*node, 1));
        });
    if (!isKnown || ids == kNoValue || !neverFalls(ids))
      return std::nullopt;
    MaskReading within = parts.getWithin();
    if (within.form != MaskForm::All && within.form != MaskForm::Causal &&
        within.form != MaskForm::Window)
      return std::nullopt;
    return Documents{ids, within};
  }

private:
  const std::vector<int64_t> &sizesOf(ValueId value) const {
    return graph.values[value].sizes;
  }

  /// What the value is made of by moving elements alone, itself first.
  std::vector<ValueId> listSources(ValueId value) {
    std::vector<ValueId> sources;
    while (value != kNoValue && isWhole(graph.values[value].dtype)) {
      sources.push_back(value);
      const Node *node = producers.find(value);
      if (!node)
        break;
      std::string_view name = nameOf(*node);
      bool moves = rowKeepers.contains(name) || name == "aten::slice";
      if (name == "aten::index") {
        moves = true;
        for (ValueId index : node->arguments[1].tensors)
          moves &= values.isConstant(index);
      }
      if (!moves)
        break;
      value = sourceOf(*node);
    }
    return sources;
  }

  bool compare(ValueId a, ValueId b) {
    if (a == kNoValue || b == kNoValue)
      return false;
    std::vector<ValueId> left = listSources(a), right = listSources(b);
    auto root = std::ranges::find_if(left, [&](ValueId each) {
      return std::ranges::find(right, each) != right.end();
    });
    if (root == left.end() || (ids != kNoValue && ids != *root))
      return false;
    const std::vector<int64_t> &sizes = sizesOf(*root);
    if (sizes.empty() || sizes.size() > 2 || sizes.back() != length)
      return false;
    ids = *root;
    return (isAlong(a, true) && isAlong(b, false)) ||
           (isAlong(a, false) && isAlong(b, true));
  }

  /// Whether the value has the numbers of `ids` in their order, along the last
  /// dim but one or the last.
  bool isAlong(ValueId value, bool isRow) {
    const std::vector<int64_t> &sizes = sizesOf(value);
    if (sizes.size() < 2 || sizes[sizes.size() - (isRow ? 1 : 2)] != 1 ||
        sizes[sizes.size() - (isRow ? 2 : 1)] != length)
      return false;
    Tensor places;
    {
      meta::Plainly plainly;
      places = at::arange(c10::multiply_integers(sizesOf(ids)))
                   .view(sizesOf(ids))
                   .to(graph.values[ids].dtype);
    }
    ConstantValues assumed(graph);
    assumed.assume(ids, places);
    Tensor found = assumed.getWhole(value);
    meta::Plainly plainly;
    return found.defined() && found.numel() == places.numel() &&
           found.flatten().to(at::kLong).equal(places.flatten().to(at::kLong));
  }

  bool neverFalls(ValueId value) {
    const Node *node = producers.find(value);
    if (!node || !isWhole(graph.values[value].dtype))
      return false;
    std::string_view name = nameOf(*node);
    ValueId source = sourceOf(*node);
    if (source == kNoValue)
      return false;
    if (name == "aten::cumsum") {
      int64_t dims = int64_t(sizesOf(value).size());
      int64_t dim = numberOf(*node, "dim", 0);
      return (dim < 0 ? dim + dims : dim) == dims - 1 && isTruth(source);
    }
    // The same number more or less.
    bool isShifted =
        (name == "aten::add" || name == "aten::sub") &&
        node->arguments.size() > 1 &&
        (node->arguments[1].tensors.empty() ||
         (operandOf(*node, 1) != kNoValue &&
          values.isConstant(operandOf(*node, 1)) &&
          c10::multiply_integers(sizesOf(operandOf(*node, 1))) == 1));
    if (isShifted || name == "aten::_to_copy" || name == "aten::clone" ||
        name == "aten::detach" || name == "aten::alias")
      return isWhole(graph.values[source].dtype) && neverFalls(source);
    return false;
  }

  /// Of true and false, perhaps as numbers.
  bool isTruth(ValueId value) {
    while (value != kNoValue && graph.values[value].dtype != at::kBool) {
      const Node *node = producers.find(value);
      if (!node || !rowKeepers.contains(nameOf(*node)))
        return false;
      value = sourceOf(*node);
    }
    return value != kNoValue;
  }

  const capture::JointGraph &graph;
  ConstantValues &values;
  Producers producers;
  int64_t length;
  ValueId ids = kNoValue;
};

/// Numbers that never fall, of documents of chance lengths, some of one
/// position.
Tensor drawIds(const std::vector<int64_t> &sizes) {
  Tensor begins = at::randint(0, 8, sizes, at::kLong).eq(0);
  return begins.to(at::kLong).cumsum(-1);
}

void verify(const capture::JointGraph &graph, const Documents &found,
            ValueId mask, int64_t batch, int64_t length) {
  Tensor ids, rows, expected;
  {
    meta::Plainly plainly;
    ids = drawIds(graph.values[found.ids].sizes);
    rows = chooseRows(length, batch * length);
  }
  ConstantValues assumed(graph);
  assumed.assume(found.ids, ids.to(graph.values[found.ids].dtype));
  Tensor seen = assumed.getRows(mask, rows);
  meta::Plainly plainly;
  if (!seen.defined())
    throw std::logic_error("a mask of documents has rows that can't be made");
  Tensor key = at::arange(length);
  Tensor all = ids.expand({batch, length});
  expected = all.index_select(1, rows).unsqueeze(-1).eq(all.unsqueeze(1)) &
             (key >= found.within.begin.index_select(0, rows).unsqueeze(-1)) &
             (key < found.within.end.index_select(0, rows).unsqueeze(-1));
  // Rows of the batch, heads, queries, keys.
  if (!seen.eq(expected.unsqueeze(1)).all().item<bool>())
    throw std::logic_error("a mask's rows are not those of documents");
}

} // namespace

std::optional<Documents>
attention::findDocuments(const capture::JointGraph &graph,
                         ConstantValues &values, ValueId mask, int64_t batch,
                         int64_t length) {
  std::vector<int64_t> sizes = graph.values[mask].sizes;
  if (sizes.size() == 2)
    sizes.insert(sizes.begin(), 2, 1);
  if (sizes.size() != 4 || sizes[1] != 1 || sizes[2] != length ||
      sizes[3] != length || (sizes[0] != batch && sizes[0] != 1))
    return std::nullopt;
  std::optional<Documents> found = Finder(graph, values, length).find(mask);
  if (!found)
    return std::nullopt;
  const std::vector<int64_t> &own = graph.values[found->ids].sizes;
  if (own.size() == 2 && own[0] != sizes[0])
    return std::nullopt;
  verify(graph, *found, mask, sizes[0], length);
  return found;
}

Tensor attention::makeBounds(const Tensor &ids, int64_t most) {
  int64_t batch = ids.size(0), length = ids.size(1), all = batch * length;
  at::TensorOptions whole = ids.options().dtype(at::kLong);
  Tensor begins = at::ones({batch, 1}, whole.dtype(at::kBool));
  if (length > 1)
    begins = at::cat({begins, ids.slice(1, 1).ne(ids.slice(1, 0, -1))}, 1);
  // Positions at which none begins write 0 to the place of the first.
  Tensor isBegin = begins.reshape({all}).to(at::kLong);
  Tensor places = (isBegin.cumsum(0) - 1) * isBegin;
  Tensor bounds = at::full({most}, all, whole)
                      .scatter(0, places, at::arange(all, whole) * isBegin);
  return at::cat({bounds, at::full({1}, all, whole)}).to(at::kInt);
}

std::optional<FixedDocuments>
attention::findFixedDocuments(const MaskReading &mask) {
  if (mask.form != MaskForm::Ranges)
    return std::nullopt;
  const Tensor begin = mask.begin.contiguous(), end = mask.end.contiguous();
  int64_t length = begin.size(0);
  const int64_t *first = begin.data_ptr<int64_t>();
  const int64_t *last = end.data_ptr<int64_t>();
  FixedDocuments found{{}, true};
  bool isWholly = true;
  for (int64_t i = 0; i < length;) {
    int64_t next = i + 1;
    while (next < length && first[next] == first[i])
      ++next;
    if (first[i] != i)
      return std::nullopt;
    for (int64_t query = i; query < next; ++query) {
      found.isCausal &= last[query] == query + 1;
      isWholly &= last[query] == next;
    }
    found.begins.push_back(i);
    i = next;
  }
  if (!found.isCausal && !isWholly)
    return std::nullopt;
  found.begins.push_back(length);
  return found;
}

Tensor attention::makeFixedBounds(const FixedDocuments &documents,
                                  int64_t batch) {
  meta::Plainly plainly;
  Tensor ofRow = at::tensor(documents.begins, at::kInt);
  int64_t length = documents.begins.back();
  Tensor rows = at::arange(batch, at::kInt).unsqueeze(1) * length;
  Tensor begins = (rows + ofRow.slice(0, 0, -1)).flatten();
  return at::cat({begins, at::full({1}, batch * length, at::kInt)});
}
