//===- ScoreSums.cpp - What is added to scores ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/Metadata.h"
#include "ir/capture/pt2/PairGraphs.h"

#include <cmath>
#include <map>

using namespace fsdp;
using namespace fsdp::capture;

namespace {

/// Follows the score through a graph.
class Reader {
public:
  explicit Reader(const Pt2PairGraph &graph) : graph(graph) {
    const json::Array &inputs = json::getArray(graph.getGraph(), "inputs");
    sums[getPt2ValueName(inputs.front())] = {};
  }

  std::optional<Pt2ScoreSum> read() {
    for (const json::Value &value : json::getArray(graph.getGraph(), "nodes"))
      readNode(json::asObject(value));
    auto it = sums.find(graph.getResult());
    return it == sums.end() ? std::nullopt : std::optional(it->second);
  }

private:
  const json::Value *getOperand(const json::Object &node, size_t index) const {
    const json::Array &inputs = json::getArray(node, "inputs");
    return index < inputs.size()
               ? &json::get(json::asObject(inputs[index]), "arg")
               : nullptr;
  }

  const Pt2ScoreSum *findSum(const json::Value *operand) const {
    auto it = operand ? sums.find(getPt2ValueName(*operand)) : sums.end();
    return it == sums.end() ? nullptr : &it->second;
  }

  /// A number of the file, or one that a node makes; nothing for others.
  std::optional<double> findNumber(const json::Value *operand) const {
    if (!operand)
      return std::nullopt;
    auto [tag, value] = json::getUnion(*operand);
    if (tag == "as_int" || tag == "as_float") {
      if (std::optional<double> number = json::toNumber(value))
        return number;
      if (std::optional<llvm::StringRef> text = json::toString(value))
        if (*text == "-Infinity")
          return -INFINITY;
      return std::nullopt;
    }
    auto it = numbers.find(getPt2ValueName(*operand));
    return it == numbers.end() ? std::nullopt : std::optional(it->second);
  }

  /// A tensor that the score does not go into.
  std::optional<std::string> findOther(const json::Value *operand) const {
    std::string name = operand ? getPt2ValueName(*operand) : std::string();
    return name.empty() || graph.getOfScore().contains(name)
               ? std::nullopt
               : std::optional(name);
  }

  void readNode(const json::Object &node) {
    const json::Array &outputs = json::getArray(node, "outputs");
    if (outputs.size() != 1)
      return;
    std::string result = getPt2ValueName(outputs.front());
    std::string name = resolvePt2Target(node).describe();
    name = name.substr(0, name.find('.'));
    size_t count = json::getArray(node, "inputs").size();
    const json::Value *first = getOperand(node, 0),
                      *second = getOperand(node, 1),
                      *third = getOperand(node, 2);
    if (!graph.getOfScore().contains(result)) {
      const json::Value *filling =
          name == "aten::scalar_tensor"                       ? first
          : name == "aten::full" || name == "aten::full_like" ? second
          : name == "aten::new_full"                          ? third
                                                              : nullptr;
      if (std::optional<double> number = findNumber(filling))
        numbers[result] = *number;
    } else if (name == "aten::where" && count == 3) {
      for (bool stays : {true, false})
        if (const Pt2ScoreSum *sum = findSum(stays ? second : third))
          addCondition(*sum, findOther(first), stays,
                       findNumber(stays ? third : second), result);
    } else if (name == "aten::masked_fill" && count == 3) {
      if (const Pt2ScoreSum *sum = findSum(first))
        addCondition(*sum, findOther(second), false, findNumber(third), result);
    } else if (count != 2) {
      return; // alpha, a way of rounding
    } else if (name == "aten::add" || name == "aten::sub") {
      double sign = name == "aten::sub" ? -1 : 1;
      if (const Pt2ScoreSum *sum = findSum(first))
        addTerm(*sum, second, sign, result);
      else if (const Pt2ScoreSum *sum = findSum(second); sum && sign == 1)
        addTerm(*sum, first, sign, result);
    } else if (name == "aten::mul" || name == "aten::div") {
      bool isQuotient = name == "aten::div";
      if (const Pt2ScoreSum *sum = findSum(first))
        multiply(*sum, findNumber(second), isQuotient, result);
      else if (const Pt2ScoreSum *sum = findSum(second); sum && !isQuotient)
        multiply(*sum, findNumber(first), false, result);
    }
  }

  void addCondition(Pt2ScoreSum sum, const std::optional<std::string> &name,
                    bool stays, std::optional<double> otherwise,
                    const std::string &result) {
    if (!name || !otherwise || *otherwise != -INFINITY)
      return;
    sum.conditions.emplace_back(*name, stays);
    sums[result] = std::move(sum);
  }

  void addTerm(Pt2ScoreSum sum, const json::Value *term, double sign,
               const std::string &result) {
    // The same number on all scores changes no weight.
    std::optional<double> number = findNumber(term);
    if (number && !std::isfinite(*number))
      return;
    std::optional<std::string> name = findOther(term);
    if (!number && !name)
      return;
    if (!number)
      sum.terms.emplace_back(*name, sign);
    sums[result] = std::move(sum);
  }

  void multiply(Pt2ScoreSum sum, std::optional<double> number, bool isQuotient,
                const std::string &result) {
    // -inf times a number below 0 would be seen.
    if (!number || !std::isfinite(*number) || *number <= 0)
      return;
    double factor = isQuotient ? 1 / *number : *number;
    sum.factor *= factor;
    for (auto &[name, times] : sum.terms)
      times *= factor;
    sums[result] = std::move(sum);
  }

  const Pt2PairGraph &graph;
  std::map<std::string, Pt2ScoreSum> sums;
  std::map<std::string, double> numbers;
};

} // namespace

std::optional<Pt2ScoreSum>
fsdp::capture::readPt2ScoreSum(const Pt2PairGraph &graph) {
  return Reader(graph).read();
}
