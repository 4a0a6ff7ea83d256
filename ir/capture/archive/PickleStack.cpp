//===- PickleStack.cpp - What a pickle's instructions make ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/archive/PickleStack.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

using namespace fsdp;
using namespace fsdp::capture;

/// Modules nest some ten levels deep, three levels of a pickle each.
static constexpr size_t kDeepest = 500;
/// Ways from the whole to its parts; a model has as many as parts.
static constexpr uint64_t kMostPaths = 10'000'000;

/// Bytes of an element of "FloatStorage" and its like; 0 if not known.
static uint64_t elementBytes(std::string_view storage) {
  static const std::map<std::string_view, uint64_t> sizes = {
      {"FloatStorage", 4},         {"DoubleStorage", 8},
      {"HalfStorage", 2},          {"BFloat16Storage", 2},
      {"LongStorage", 8},          {"IntStorage", 4},
      {"ShortStorage", 2},         {"CharStorage", 1},
      {"ByteStorage", 1},          {"BoolStorage", 1},
      {"ComplexHalfStorage", 4},   {"ComplexFloatStorage", 8},
      {"ComplexDoubleStorage", 16}};
  constexpr std::string_view module = "torch.";
  if (!storage.starts_with(module))
    return 0;
  auto it = sizes.find(storage.substr(module.size()));
  return it == sizes.end() ? 0 : it->second;
}

//===----------------------------------------------------------------------===//
// The stack
//===----------------------------------------------------------------------===//

void PickleStack::push(Node node) {
  stack.push_back(static_cast<Id>(nodes.size()));
  nodes.push_back(std::move(node));
}

PickleStack::Id PickleStack::pop() {
  if (stack.size() <= (marks.empty() ? 0 : marks.back()))
    damaged("takes more values than it gave");
  Id id = stack.back();
  stack.pop_back();
  return id;
}

PickleStack::Id PickleStack::top() {
  Id id = pop();
  stack.push_back(id);
  return id;
}

std::vector<PickleStack::Id> PickleStack::popMany(size_t count) {
  std::vector<Id> values(count);
  for (size_t i = count; i-- > 0;)
    values[i] = pop();
  return values;
}

std::vector<PickleStack::Id> PickleStack::popToMark() {
  if (marks.empty())
    damaged("ends a list that it did not begin");
  std::vector<Id> values(stack.begin() + static_cast<ptrdiff_t>(marks.back()),
                         stack.end());
  stack.resize(marks.back());
  marks.pop_back();
  return values;
}

void PickleStack::pushTuple(size_t count) {
  push({.kind = Node::Tuple, .children = popMany(count)});
}

void PickleStack::pushTupleToMark() {
  push({.kind = Node::Tuple, .children = popToMark()});
}

void PickleStack::pushListToMark() {
  push({.kind = Node::List, .children = popToMark()});
}

void PickleStack::checkPairs(const std::vector<Id> &values) const {
  if (values.size() % 2)
    damaged("has a key without a value");
}

void PickleStack::pushDictToMark() {
  std::vector<Id> values = popToMark();
  checkPairs(values);
  push({.kind = Node::Dict, .children = std::move(values)});
}

void PickleStack::addTo(Id container, const std::vector<Id> &values) {
  Node::Kind kind = nodes[container].kind;
  bool isContainer =
      kind == Node::Other || kind == Node::List || kind == Node::Dict;
  if (!isContainer || container == kAtom)
    damaged("adds to what is no container");
  Node &node = nodes[container];
  node.children.insert(node.children.end(), values.begin(), values.end());
}

void PickleStack::addToMark(bool arePairs) {
  std::vector<Id> values = popToMark();
  if (arePairs)
    checkPairs(values);
  addTo(top(), values);
}

void PickleStack::add(size_t count) {
  std::vector<Id> values = popMany(count);
  addTo(top(), values);
}

void PickleStack::pushText(std::string_view text) {
  // Types are written as texts, which LibTorch parses.
  size_t depth = 0, deepest = 0;
  for (char c : text) {
    if (c == '[' || c == '(')
      deepest = std::max(deepest, ++depth);
    else if ((c == ']' || c == ')') && depth != 0)
      --depth;
  }
  if (deepest > kDeepest)
    implausible("holds a text that nests " + std::to_string(deepest) +
                " brackets, more than " + std::to_string(kDeepest));
  push({.kind = Node::Text, .text = text});
}

/// Memory is made for all entries below.
void PickleStack::memoize(uint64_t key) {
  if (key > bytes)
    implausible("numbers a value " + std::to_string(key) + ", and has " +
                std::to_string(bytes) + " bytes");
  memo[key] = top();
}

void PickleStack::recall(uint64_t key) {
  auto it = memo.find(key);
  if (it == memo.end())
    damaged("uses a value that it did not give");
  stack.push_back(it->second);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

void PickleStack::pushGlobal(std::string name) {
  push({.kind = Node::Global, .number = static_cast<int64_t>(names.size())});
  names.push_back(std::move(name));
}

/// ('storage', type, key, device, elements).
void PickleStack::pushStorage() {
  const Node &args = nodes[pop()];
  if (args.kind != Node::Tuple || args.children.size() < 5)
    damaged("refers to a storage in an unknown way");
  const Node &type = nodes[args.children[1]], &key = nodes[args.children[2]],
             &count = nodes[args.children[4]];
  if (type.kind != Node::Global || key.kind != Node::Text ||
      count.kind != Node::Integer || count.number < 0)
    damaged("refers to a storage in an unknown way");
  const std::string &typeName = names[static_cast<size_t>(type.number)];
  uint64_t element = elementBytes(typeName);
  if (element == 0)
    refuse(ErrorId::ModelNotSupported,
           "has a storage of type " + typeName +
               ", which is not supported; export the model with plain "
               "tensors");
  std::string name(key.text);
  auto elements = static_cast<uint64_t>(count.number);
  if (elements != 0) {
    std::optional<uint64_t> held = context.storageBytes(name);
    if (!held || elements > *held / element)
      damaged("states " + std::to_string(elements) + " elements of " +
              std::to_string(element) + " bytes for the storage '" + name +
              "', which has " +
              (held ? std::to_string(*held) + " bytes" : "no entry"));
  }
  push({.kind = Node::Storage, .number = count.number});
}

std::vector<int64_t> PickleStack::integersOf(Id id) const {
  if (nodes[id].kind != Node::Tuple)
    damaged("has a tensor without sizes");
  std::vector<int64_t> values;
  for (Id child : nodes[id].children) {
    if (nodes[child].kind != Node::Integer || nodes[child].number < 0)
      damaged("has a tensor with sizes that are no numbers");
    values.push_back(nodes[child].number);
  }
  return values;
}

/// (storage, offset, sizes, strides, …): every element lies in the storage.
void PickleStack::pushTensor(Id id) {
  const std::vector<Id> &args = nodes[id].children;
  if (nodes[id].kind != Node::Tuple || args.size() < 4 ||
      nodes[args[0]].kind != Node::Storage ||
      nodes[args[1]].kind != Node::Integer)
    damaged("builds a tensor in an unknown way");
  auto elements = static_cast<uint64_t>(nodes[args[0]].number);
  std::vector<int64_t> sizes = integersOf(args[2]);
  std::vector<int64_t> strides = integersOf(args[3]);
  int64_t offset = nodes[args[1]].number;
  bool isEmpty = std::ranges::find(sizes, 0) != sizes.end();
  bool fits = offset >= 0 && sizes.size() == strides.size();
  uint64_t last = fits ? static_cast<uint64_t>(offset) : 0;
  for (size_t i = 0; fits && !isEmpty && i < sizes.size(); ++i) {
    uint64_t step = 0;
    fits = !__builtin_mul_overflow(static_cast<uint64_t>(sizes[i] - 1),
                                   static_cast<uint64_t>(strides[i]), &step) &&
           !__builtin_add_overflow(last, step, &last);
  }
  if (!fits || (!isEmpty && last >= elements))
    damaged("has a tensor that lies beyond its storage of " +
            std::to_string(elements) + " elements");
  push({.kind = Node::Tensor});
}

void PickleStack::call() {
  Id argument = pop(), function = pop();
  if (nodes[function].kind != Node::Global)
    refuse(ErrorId::ModelNotSupported,
           "calls what is no function of a plain tensor or module");
  const std::string &name = names[static_cast<size_t>(nodes[function].number)];
  if (name == "torch._utils._rebuild_tensor_v2")
    return pushTensor(argument);
  if (context.takesMeta &&
      name == "torch._utils._rebuild_meta_tensor_no_storage")
    return push({.kind = Node::Tensor});
  static const char *const known[] = {"torch._utils._rebuild_parameter",
                                      "torch.jit._pickle.restore_type_tag",
                                      "torch.jit._pickle.build_intlist",
                                      "torch.jit._pickle.build_tensorlist",
                                      "torch.jit._pickle.build_doublelist",
                                      "torch.jit._pickle.build_boollist",
                                      "collections.OrderedDict",
                                      "builtins.complex",
                                      "torch.device"};
  bool isOwn = name.starts_with("__torch__.") &&
               !name.starts_with("__torch__.torch.classes.");
  if (!isOwn && std::ranges::find(known, name) == std::end(known))
    refuse(ErrorId::ModelNotSupported,
           "holds an object of " + name +
               ", which is not supported; export the model with plain "
               "tensors and modules");
  push({.children = {argument}});
}

//===----------------------------------------------------------------------===//
// Depth
//===----------------------------------------------------------------------===//

/// Walks what `root` holds, parts after wholes, without recursion.
void PickleStack::measure(Id root) const {
  enum : uint8_t { New, Open, Done };
  std::vector<uint8_t> state(nodes.size(), New);
  std::vector<uint32_t> depth(nodes.size(), 1);
  std::vector<uint64_t> paths(nodes.size(), 1);
  std::vector<std::pair<Id, size_t>> open = {{root, 0}};
  state[root] = Open;
  while (!open.empty()) {
    auto &[id, next] = open.back();
    const std::vector<Id> &children = nodes[id].children;
    if (next < children.size()) {
      Id child = children[next++];
      if (state[child] == Open)
        implausible("holds a value that contains itself");
      if (state[child] == New) {
        state[child] = Open;
        open.emplace_back(child, 0);
      }
      continue;
    }
    for (Id child : children) {
      depth[id] = std::max(depth[id], depth[child] + 1);
      paths[id] = std::min(paths[id] + paths[child], 2 * kMostPaths);
    }
    state[id] = Done;
    open.pop_back();
  }
  if (depth[root] > kDeepest)
    implausible("nests " + std::to_string(depth[root]) +
                " levels deep, more than " + std::to_string(kDeepest));
  if (paths[root] > std::max<uint64_t>(kMostPaths, bytes))
    implausible("uses the same values again in more than " +
                std::to_string(kMostPaths) + " ways");
}

/// Of what `measure` has found to be neither too deep nor too much.
void PickleStack::addLeaves(Id id, std::vector<uint32_t> &leaves) const {
  const Node &node = nodes[id];
  bool isDict = node.kind == Node::Dict;
  if (!isDict && node.kind != Node::Tuple && node.kind != Node::List) {
    leaves.push_back(node.kind == Node::Tensor ? id : kAtom);
    return;
  }
  for (size_t i = isDict; i < node.children.size(); i += isDict ? 2 : 1)
    addLeaves(node.children[i], leaves);
}

std::vector<uint32_t> PickleStack::finish() {
  if (stack.empty())
    damaged("is an empty pickle");
  measure(stack.back());
  std::vector<uint32_t> leaves;
  addLeaves(stack.back(), leaves);
  return leaves;
}
