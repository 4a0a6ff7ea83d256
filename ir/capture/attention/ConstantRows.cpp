//===- ConstantRows.cpp - Rows of what depends on no data -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/attention/Calls.h"
#include "ir/capture/attention/ConstantValues.h"
#include "ir/capture/meta/Plainly.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

using namespace fsdp;
using namespace fsdp::attention;
using at::Tensor;
using capture::Argument;
using capture::kNoValue;

Tensor ConstantValues::getRows(ValueId value, const Tensor &rows) {
  const std::vector<int64_t> &sizes = graph.values[value].sizes;
  if (isSmall(value)) {
    Tensor dense = getWhole(value);
    meta::Plainly plainly;
    return dense.defined() && sizes.size() > 1 && sizes[sizes.size() - 2] != 1
               ? dense.index_select(-2, rows)
               : dense;
  }
  if (Tensor dense = findData(value); dense.defined()) {
    meta::Plainly plainly;
    return sizes.size() > 1 ? dense.index_select(-2, rows) : dense;
  }
  const Node *node = findProducer(value);
  if (!node || !isConstant(value))
    return {};
  return computeRows(*node, value, rows);
}

Tensor ConstantValues::sliceRows(const Node &node, ValueId source,
                                 const Tensor &rows) {
  const std::vector<int64_t> &from = graph.values[source].sizes;
  std::optional<SliceBounds> part = readSlice(node, from);
  if (!part)
    return {};
  auto [dim, start, end] = *part;
  meta::Plainly plainly;
  Tensor operand =
      getRows(source, dim == -2 ? (rows + start).contiguous() : rows);
  // Dims in front may stand for all with one.
  bool isWhole = operand.defined() && dim != -2 &&
                 operand.size(dim) == from[size_t(dim + from.size())];
  return isWhole ? operand.narrow(dim, start, end - start) : operand;
}

Tensor ConstantValues::computeRows(const Node &node, ValueId value,
                                   const Tensor &rows) {
  const std::vector<int64_t> &sizes = graph.values[value].sizes;
  std::vector<int64_t> wanted = sizes;
  if (wanted.size() > 1 && wanted[wanted.size() - 2] != 1)
    wanted[wanted.size() - 2] = rows.size(0);
  // What is the same for all leading dims need not be there for each.
  std::fill(wanted.begin(), wanted.end() - std::min<size_t>(2, wanted.size()),
            1);
  if (std::optional<Tensor> number = findFill(node)) {
    meta::Plainly plainly;
    return number->expand(wanted);
  }
  if (node.op.hasTag(at::Tag::pointwise)) {
    std::unordered_map<ValueId, Tensor> given;
    for (const Argument &argument : node.arguments)
      for (ValueId each : argument.tensors)
        if (each != kNoValue && !(given[each] = getRows(each, rows)).defined())
          return {};
    return call(node, value, [&](ValueId each) { return given[each]; });
  }
  ValueId source = sourceOf(node);
  if (source == kNoValue)
    return {};
  const std::vector<int64_t> &from = graph.values[source].sizes;
  std::string_view name = nameOf(node);
  if (name == "aten::triu" || name == "aten::tril") {
    Tensor operand = getRows(source, rows);
    if (!operand.defined())
      return {};
    meta::Plainly plainly;
    Tensor distance = at::arange(sizes.back()) - rows.unsqueeze(-1);
    int64_t shift = numberOf(node, "diagonal", 0);
    return at::where(name == "aten::triu" ? distance >= shift
                                          : distance <= shift,
                     operand, at::zeros_like(operand));
  }
  if (name == "aten::slice")
    return sliceRows(node, source, rows);
  if (!rowKeepers.contains(name))
    return {};
  Tensor operand = getRows(source, rows);
  if (!operand.defined())
    return {};
  meta::Plainly plainly;
  operand = operand.to(graph.values[value].dtype);
  if (name == "aten::expand" || from == sizes)
    return operand;
  if (from.size() < 2 || sizes.size() < 2 ||
      withoutOnes(from) != withoutOnes(sizes))
    return {};
  return moveOnes(operand, from, sizes);
}
