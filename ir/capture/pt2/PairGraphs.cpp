//===- PairGraphs.cpp - Graphs of one score -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/PairGraphs.h"
#include "ir/capture/pt2/Metadata.h"
#include "ir/capture/pt2/PairComparisons.h"

#include "llvm/ADT/STLExtras.h"

using namespace fsdp;
using namespace fsdp::capture;

namespace {

/// Operators on elements that LibTorch does not mark as such.
constexpr llvm::StringLiteral onElements[] = {
    "aten::__and__",  "aten::__or__",      "aten::__xor__",
    "aten::_to_copy", "aten::alias",       "aten::clone",
    "aten::detach",   "aten::divide",      "aten::floor_divide",
    "aten::isin",     "aten::leaky_relu",  "aten::lift_fresh_copy",
    "aten::multiply", "aten::masked_fill", "aten::subtract",
    "aten::to",       "aten::true_divide", "aten::type_as",
    "aten::where"};

/// Results that are the same whatever the numbers are.
constexpr llvm::StringLiteral constants[] = {
    "aten::new_ones", "aten::new_zeros", "aten::new_full"};
constexpr llvm::StringLiteral filled[] = {"aten::full_like", "aten::ones_like",
                                          "aten::zeros_like"};

/// Calls `visit` with the name of each tensor among the node's inputs.
void forEachTensor(const json::Object &node,
                   llvm::function_ref<void(const std::string &)> visit) {
  auto byName = [&](const json::Value &reference) {
    visit(json::getString(json::asObject(reference), "name"));
  };
  for (const json::Value &input : json::getArray(node, "inputs")) {
    auto [tag, value] = json::getUnion(json::get(json::asObject(input), "arg"));
    if (tag == "as_tensor") {
      byName(value);
    } else if (tag == "as_tensors") {
      for (const json::Value &each : json::asArray(value))
        byName(each);
    } else if (tag == "as_optional_tensor" &&
               json::getUnion(value).first == "as_tensor") {
      byName(json::getUnion(value).second);
    } else if (tag == "as_optional_tensors") {
      for (const json::Value &each : json::asArray(value))
        if (auto [kind, inner] = json::getUnion(each); kind == "as_tensor")
          byName(inner);
    }
  }
}

void forEachOutput(const json::Object &node,
                   llvm::function_ref<void(const std::string &)> visit) {
  for (const json::Value &output : json::getArray(node, "outputs"))
    if (std::string name = getPt2ValueName(output); !name.empty())
      visit(name);
}

} // namespace

Pt2PairGraph::Pt2PairGraph(const json::Object &call, const json::Object &graph,
                           bool takesScore)
    : call(call), graph(graph), takesScore(takesScore) {
  const json::Array &inputs = json::getArray(graph, "inputs");
  size_t numbers = takesScore ? 5 : 4;
  if (inputs.size() < numbers)
    json::fail("a score, or positions, as inputs of a graph of flex_attention");
  for (size_t i = 0; i < numbers; ++i) {
    std::string name = getPt2ValueName(inputs[i]);
    ofPair.insert(name);
    if (takesScore && i == 0)
      ofScore.insert(name);
  }
  for (const json::Value &value : json::getArray(graph, "nodes")) {
    const json::Object &node = json::asObject(value);
    Pt2Target target = resolvePt2Target(node);
    Role role = classify(node, target);
    bool isOfPair = role == Role::Numbers || role == Role::Read;
    bool isOfScore = false;
    forEachTensor(node, [&](const std::string &name) {
      isOfScore |= isOfPair && ofScore.contains(name);
    });
    forEachOutput(node, [&](const std::string &name) {
      if (isOfPair)
        ofPair.insert(name);
      if (isOfScore)
        ofScore.insert(name);
    });
    roles.try_emplace(&node, std::move(target), role);
  }
  const json::Array &outputs = json::getArray(graph, "outputs");
  if (outputs.size() != 1 ||
      (result = getPt2ValueName(outputs.front())).empty())
    json::fail("one tensor as the result of a graph of flex_attention");
}

Pt2PairGraph::Role Pt2PairGraph::classify(const json::Object &node,
                                          const Pt2Target &target) const {
  bool isOfPair = false;
  forEachTensor(node, [&](const std::string &name) {
    isOfPair |= ofPair.contains(name);
  });
  auto refuse = [&](const std::string &why) {
    refusePt2Node(ErrorId::UnsupportedRegion, call,
                  target.describe() + " in a function of flex_attention", why);
  };
  if (target.region)
    refuse("calls functions of its own, which is not supported; write it "
           "without them");
  if (!target.op)
    return Role::Whole;
  if (target.op->schema().is_mutable() ||
      target.op->hasTag(at::Tag::nondeterministic_seeded))
    refuse("writes or draws, which is not supported: a score is computed "
           "again where its gradient is; do so outside");
  if (!isOfPair)
    return Role::Whole;
  std::string name = target.op->operator_name().name;
  if (llvm::is_contained(constants, name))
    return Role::Constant;
  if (name == "aten::index") {
    const json::Array &inputs = json::getArray(node, "inputs");
    std::string buffer =
        inputs.empty()
            ? std::string()
            : getPt2ValueName(json::get(json::asObject(inputs.front()), "arg"));
    if (ofPair.contains(buffer))
      refuse("reads what depends on the pair of query and key by another "
             "index, which is not supported; read the buffer by all indices");
    return Role::Read;
  }
  if (target.op->hasTag(at::Tag::pointwise) ||
      llvm::is_contained(onElements, name) || llvm::is_contained(filled, name))
    return Role::Numbers;
  refuse("is neither on elements nor reads a buffer at an index: expected what "
         "becomes of one score, of query q_idx and key kv_idx; compute the "
         "rest outside, and read it as a buffer");
  return Role::Whole;
}

/// A number beside those of pairs counts as one of them in promotion.
void Pt2PairGraph::alignNumbers(const json::Object &node,
                                const Pt2Target &target,
                                Pt2Interpreter &interpreter) const {
  forEachTensor(node, [&](const std::string &name) {
    const c10::IValue &operand = interpreter.get(name);
    if (!operand.isTensor() || ofPair.contains(name))
      return;
    if (operand.toTensor().dim() == 0)
      interpreter.bind(name, operand.toTensor().view({1, 1, 1, 1}));
    else if (operand.toTensor().dim() != 4 || operand.toTensor().numel() != 1)
      refusePt2Node(ErrorId::UnsupportedRegion, call,
                    target.describe() + " in a function of flex_attention",
                    "is given a whole buffer beside a number: expected the "
                    "buffer to be read by indices, down to one number");
  });
}

void Pt2PairGraph::bindInputs(const at::Tensor &scores,
                              const meta::PairPositions &positions,
                              const std::vector<c10::IValue> &buffers,
                              Pt2Interpreter &interpreter) const {
  const json::Array &inputs = json::getArray(graph, "inputs");
  std::vector<c10::IValue> given;
  if (takesScore)
    given.emplace_back(scores);
  for (const at::Tensor &each :
       {positions.batch, positions.head, positions.query, positions.key})
    given.emplace_back(each);
  given.insert(given.end(), buffers.begin(), buffers.end());
  if (given.size() != inputs.size())
    json::fail("one argument for each input of a graph of flex_attention");
  for (size_t i = 0; i < inputs.size(); ++i)
    if (std::string name = getPt2ValueName(inputs[i]); !name.empty())
      interpreter.bind(name, given[i]);
}

std::vector<at::Tensor>
Pt2PairGraph::compute(const std::vector<std::string> &names,
                      const at::Tensor &scores,
                      const meta::PairPositions &positions,
                      const std::vector<c10::IValue> &buffers) const {
  // What is recorded comes from the call.
  Pt2Interpreter interpreter(positions.query.device());
  bindInputs(scores, positions, buffers, interpreter);
  const json::Array &inputs = json::getArray(graph, "inputs");
  PairComparisons comparisons;
  size_t first = takesScore ? 1 : 0;
  comparisons.addPositions(getPt2ValueName(inputs[first + 2]),
                           getPt2ValueName(inputs[first + 3]), positions);

  Location location = getPt2Location(call);
  for (const json::Value &value : json::getArray(graph, "nodes")) {
    const json::Object &node = json::asObject(value);
    const auto &[target, role] = roles.at(&node);
    bool needsScore = false;
    forEachOutput(node, [&](const std::string &name) {
      needsScore |= ofScore.contains(name);
    });
    if (needsScore && !scores.defined())
      continue;
    if (role == Role::Numbers) {
      if (std::optional<at::Tensor> compared =
              comparisons.run(node, target, interpreter)) {
        forEachOutput(node, [&](const std::string &name) {
          interpreter.bind(name, *compared);
        });
        continue;
      }
      alignNumbers(node, target, interpreter);
    }
    interpreter.runNode(node, target, location);
    if (role == Role::Read)
      forEachOutput(node, [&](const std::string &name) {
        if (interpreter.get(name).toTensor().dim() > 4)
          refusePt2Node(ErrorId::UnsupportedRegion, call,
                        "a function of flex_attention",
                        "reads a part of a buffer by too few indices: expected "
                        "one for each of its dims");
      });
  }
  std::vector<at::Tensor> results;
  for (const std::string &name : names) {
    at::Tensor tensor = interpreter.get(name).toTensor();
    results.push_back(tensor.dim() == 0 ? tensor.view({1, 1, 1, 1}) : tensor);
  }
  return results;
}
