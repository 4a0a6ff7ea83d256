//===- Expr.cpp - Expressions over symbolic sizes -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/symbolic/Expr.h"

#include "support/Error.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <limits>
#include <utility>

using namespace fsdp;
using namespace fsdp::capture;

using Node = SymbolicExpr::Node;
using Kind = Node::Kind;

namespace {

[[noreturn]] void refuseUnknown(const std::string &what) {
  throw Error(ErrorId::DynamicDimension,
              "a size depends on " + what +
                  ", which is not known while the program is built");
}

Number evaluateNode(const Node &node,
                    const SymbolicExpr::Environment &environment) {
  auto evaluate = [&](const Node &operand) {
    return evaluateNode(operand, environment);
  };
  switch (node.kind) {
  case Kind::Number:
    return node.number;
  case Kind::Symbol:
    if (std::optional<Number> number = environment.symbol(node.name))
      return *number;
    refuseUnknown("'" + node.name + "'");
  case Kind::Source:
    if (std::optional<Number> number = environment.source(node.source))
      return *number;
    refuseUnknown("the input '" + node.source.input + "'");
  case Kind::String:
  case Kind::Pair:
    refuseUnknown("'" + node.name + "'");
  case Kind::Call:
    break;
  }
  if (node.name == "and" || node.name == "or") {
    Number left = evaluate(node.operands[0]);
    return isTrue(left) == (node.name == "or") ? left
                                               : evaluate(node.operands[1]);
  }
  if (node.name == "if")
    return evaluate(node.operands[isTrue(evaluate(node.operands[0])) ? 1 : 2]);
  if (node.name == "Piecewise") {
    for (const Node &pair : node.operands)
      if (pair.kind == Kind::Pair && isTrue(evaluate(pair.operands[1])))
        return evaluate(pair.operands[0]);
    refuseUnknown("a case that no condition covers");
  }
  std::vector<Number> numbers;
  for (const Node &operand : node.operands)
    numbers.push_back(evaluate(operand));
  return callNumberFunction(node.name, numbers);
}

void forEachNode(const Node &node,
                 llvm::function_ref<void(const Node &)> visit) {
  visit(node);
  for (const Node &operand : node.operands)
    forEachNode(operand, visit);
}

} // namespace

Number SymbolicExpr::evaluate(const Environment &environment) const {
  return evaluateNode(*root, environment);
}

std::vector<std::string> SymbolicExpr::getSymbols() const {
  std::vector<std::string> names;
  forEachNode(*root, [&](const Node &node) {
    if (node.kind == Kind::Symbol && !llvm::is_contained(names, node.name))
      names.push_back(node.name);
  });
  return names;
}

bool SymbolicExpr::isPositive(llvm::StringRef symbol) const {
  bool positive = false;
  forEachNode(*root, [&](const Node &node) {
    positive |=
        node.kind == Kind::Symbol && node.name == symbol && node.isPositive;
  });
  return positive;
}

std::string SymbolicExpr::getAsSymbol() const {
  return root->kind == Kind::Symbol ? root->name : std::string();
}

std::string SymbolicExpr::print(
    llvm::function_ref<std::string(const SymbolicSource &)> describe) const {
  std::string printed;
  size_t done = 0;
  std::vector<const Node *> sources;
  forEachNode(*root, [&](const Node &node) {
    if (node.kind == Kind::Source)
      sources.push_back(&node);
  });
  // A comparison's middle operand is there twice.
  llvm::sort(sources,
             [](const Node *a, const Node *b) { return a->begin < b->begin; });
  for (const Node *source : sources) {
    if (source->begin < done)
      continue;
    printed += text.substr(done, source->begin - done);
    printed += describe(source->source);
    done = source->end;
  }
  return printed + text.substr(done);
}
