//===- PairComparisons.cpp - Comparisons of positions ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/PairComparisons.h"
#include "ir/capture/attention/Steps.h"
#include "ir/capture/pt2/Metadata.h"

#include <ATen/TensorOperators.h>

using namespace fsdp;
using namespace fsdp::capture;

/// Sums further off are left as they are written: they could overflow.
static constexpr int64_t kMost = int64_t(1) << 40;

void PairComparisons::addPositions(const std::string &queryName,
                                   const std::string &keyName,
                                   const meta::PairPositions &positions) {
  query = positions.query;
  key = positions.key;
  sums[queryName] = {1, 0, 0};
  sums[keyName] = {0, 1, 0};
}

std::optional<PairComparisons::Sum>
PairComparisons::readOperand(const json::Object &node, size_t index,
                             const Pt2Interpreter &values) const {
  const json::Array &inputs = json::getArray(node, "inputs");
  if (index >= inputs.size())
    return std::nullopt;
  const json::Value &argument = json::get(json::asObject(inputs[index]), "arg");
  auto [tag, value] = json::getUnion(argument);
  if (tag == "as_int" || tag == "as_sym_int") {
    c10::IValue given = values.evaluate(argument);
    return given.isInt() && std::abs(given.toInt()) < kMost
               ? std::optional(Sum{0, 0, given.toInt()})
               : std::nullopt;
  }
  auto it = sums.find(getPt2ValueName(argument));
  return it == sums.end() ? std::nullopt : std::optional(it->second);
}

static at::Tensor relate(const at::Tensor &a, llvm::StringRef relation,
                         const at::Tensor &b) {
  if (relation == "lt")
    return at::lt(a, b);
  if (relation == "le")
    return at::le(a, b);
  if (relation == "gt")
    return at::gt(a, b);
  if (relation == "ge")
    return at::ge(a, b);
  return relation == "eq" ? at::eq(a, b) : at::ne(a, b);
}

/// Whether the sum, whose key occurs once, is so to 0.
at::Tensor PairComparisons::compare(const Sum &sum,
                                    llvm::StringRef relation) const {
  // Of a key that is taken off: the rest of the sum is so to the key.
  int64_t sign = sum.key < 0 ? 1 : -1;
  at::Tensor rest = query;
  if (sum.query * sign != 1)
    rest = rest * (sum.query * sign);
  if (sum.offset != 0)
    rest = rest + sum.offset * sign;
  return relate(rest,
                sum.key < 0 ? relation
                            : llvm::StringRef(attention::turnCompare(relation)),
                key);
}

std::optional<at::Tensor> PairComparisons::run(const json::Object &node,
                                               const Pt2Target &target,
                                               const Pt2Interpreter &values) {
  llvm::StringRef name = target.op->operator_name().name;
  name.consume_front("aten::");
  std::optional<Sum> left = readOperand(node, 0, values),
                     right = readOperand(node, 1, values);
  const json::Array &outputs = json::getArray(node, "outputs");
  if (!left || outputs.size() != 1)
    return std::nullopt;
  std::string result = getPt2ValueName(outputs.front());
  size_t operands = json::getArray(node, "inputs").size();
  if (operands == 1 && !left->isAbsolute) {
    if (name == "neg")
      sums[result] = {-left->query, -left->key, -left->offset};
    else if (name == "abs")
      sums[result] = {left->query, left->key, left->offset, true};
    return std::nullopt;
  }
  if (operands != 2 || !right || right->isAbsolute)
    return std::nullopt;
  Sum difference = {left->query - right->query, left->key - right->key,
                    left->offset - right->offset};
  bool isOne = std::abs(difference.key) == 1 && difference.query != 0;
  bool isRelation = !attention::turnCompare(name).empty();
  if (left->isAbsolute) {
    // |sum| <= number: sum is at most that, and at least its negative.
    bool isNumber = right->query == 0 && right->key == 0;
    bool isWithin = name == "lt" || name == "le";
    if (!isNumber || !isOne || !(isWithin || name == "gt" || name == "ge"))
      return std::nullopt;
    Sum other = {left->query, left->key, left->offset + right->offset};
    at::Tensor above = compare(difference, name),
               below = compare(other, attention::turnCompare(name));
    return isWithin ? at::logical_and(above, below)
                    : at::logical_or(above, below);
  }
  if (isRelation)
    return isOne ? std::optional(compare(difference, name)) : std::nullopt;
  Sum sum;
  if (name == "sub")
    sum = difference;
  else if (name == "add")
    sum = {left->query + right->query, left->key + right->key,
           left->offset + right->offset};
  else
    return std::nullopt;
  if (std::abs(sum.query) < kMost && std::abs(sum.key) < kMost &&
      std::abs(sum.offset) < kMost)
    sums[result] = sum;
  return std::nullopt;
}
