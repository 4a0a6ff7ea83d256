//===- ReachableCode.cpp - All code that a model may run ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/torchscript/ReachableCode.h"

#include "ir/capture/torchscript/AllowedOperators.h"
#include "support/Error.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <string>
#include <unordered_map>

using namespace fsdp;
using namespace fsdp::capture;
namespace jit = torch::jit;
namespace prim = c10::prim;

namespace {

/// Calls that nest deeper, or code that calls put in more often than that, no
/// model has.
constexpr size_t kDeepest = 500;
constexpr uint64_t kMostNodes = 20'000'000;

struct Code {
  std::string name;
  jit::Function *function = nullptr;
  uint64_t nodes = 0;
  size_t depth = 1; ///< of its own blocks
  std::vector<size_t> calls = {};
};

/// All functions that a function may call, by name: of a method that is called
/// all classes' methods of that name, since an interface may stand for any.
class Reach {
public:
  explicit Reach(const jit::Module &module) {
    for (jit::Function *function :
         module._ivalue()->compilation_unit()->get_functions())
      if (function)
        byName[function->name()].push_back(function);
    add(&module.get_method("forward").function());
    // Operators on objects run these.
    for (const char *name : {"__enter__", "__exit__", "__lt__", "__len__",
                             "__contains__", "__getitem__", "__str__"})
      addNamed(name, root);
    for (size_t i = 0; i < codes.size(); ++i)
      if (codes[i].function->isGraphFunction())
        walk(i, jit::toGraphFunction(*codes[i].function).graph()->block(), 1);
  }

  /// Throws if calls make more code than anybody writes.
  void checkSize() {
    std::vector<uint64_t> nodes(codes.size());
    std::vector<size_t> depth(codes.size());
    enum : uint8_t { New, Open, Done };
    std::vector<uint8_t> state(codes.size(), New);
    std::vector<std::pair<size_t, size_t>> open = {{0, 0}};
    state[0] = Open;
    auto fail = [](const Code &code, const std::string &what) {
      throw Error(ErrorId::FileImplausible, "the code of '" + code.name + "' " +
                                                what +
                                                "; it was made to do harm");
    };
    while (!open.empty()) {
      auto &[index, next] = open.back();
      Code &code = codes[index];
      if (next < code.calls.size()) {
        size_t callee = code.calls[next++];
        if (state[callee] == Open)
          fail(code, "calls itself");
        if (state[callee] == New) {
          state[callee] = Open;
          open.emplace_back(callee, 0);
        }
        continue;
      }
      nodes[index] = code.nodes;
      for (size_t callee : code.calls) {
        nodes[index] = std::min(nodes[index] + nodes[callee], 2 * kMostNodes);
        depth[index] = std::max(depth[index], depth[callee]);
      }
      depth[index] += code.depth;
      state[index] = Done;
      open.pop_back();
    }
    if (depth[0] > kDeepest)
      fail(codes[0], "nests " + std::to_string(depth[0]) +
                         " calls and blocks, more than " +
                         std::to_string(kDeepest));
    if (nodes[0] > kMostNodes)
      fail(codes[0], "grows to more than " + std::to_string(kMostNodes) +
                         " operations by calls");
  }

  const std::vector<Code> &all() const { return codes; }

private:
  static constexpr size_t root = 0;

  size_t add(jit::Function *function) {
    auto [it, isNew] = indexOf.try_emplace(function, codes.size());
    if (isNew) {
      codes.push_back({function->qualname().qualifiedName(), function});
      function->ensure_defined();
    }
    return it->second;
  }

  void addNamed(const std::string &name, size_t caller) {
    auto found = byName.find(name);
    if (found == byName.end())
      return;
    for (jit::Function *function : found->second) {
      size_t callee = add(function);
      // An override may call the method that it overrides.
      if (callee != caller && caller != root)
        codes[caller].calls.push_back(callee);
    }
  }

  void walk(size_t index, const jit::Block *block, size_t depth) {
    codes[index].depth = std::max(codes[index].depth, depth);
    for (const jit::Node *node : block->nodes()) {
      ++codes[index].nodes;
      checkOperator(*node, codes[index].name);
      follow(index, *node);
      for (const jit::Block *inner : node->blocks())
        walk(index, inner, depth + 1);
      if (node->hasAttribute(c10::attr::Subgraph))
        walk(index, node->g(c10::attr::Subgraph)->block(), depth + 1);
    }
  }

  void follow(size_t index, const jit::Node &node) {
    if (node.kind() == prim::CallFunction) {
      auto type = node.input(0)->type()->cast<c10::FunctionType>();
      if (!type)
        throw Error(ErrorId::ModelNotSupported,
                    "the model calls a function that is not known" +
                        describeSource(node));
      // add() may move the codes.
      size_t callee = add(type->function());
      codes[index].calls.push_back(callee);
    } else if (node.kind() == prim::CallMethod) {
      const std::string &name = node.s(c10::attr::name);
      c10::ClassTypePtr type = node.input(0)->type()->cast<c10::ClassType>();
      if (jit::Function *method = type ? type->findMethod(name) : nullptr) {
        size_t callee = add(method);
        codes[index].calls.push_back(callee);
      } else {
        addNamed(name, index);
      }
    }
  }

  std::unordered_map<std::string, std::vector<jit::Function *>> byName;
  std::unordered_map<const jit::Function *, size_t> indexOf;
  std::vector<Code> codes;
};

} // namespace

std::vector<jit::Function *>
capture::findReachableCode(const jit::Module &module) {
  Reach reach(module);
  reach.checkSize();
  std::vector<jit::Function *> functions;
  for (const Code &code : reach.all())
    functions.push_back(code.function);
  return functions;
}
