//===- PickleScan.cpp - Looks at a pickle before it is trusted ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/PickleScan.h"

#include "runtime/support/Error.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>
#include <vector>

using namespace fsdp;
using namespace fsdp::capture;

namespace {

/// Modules nest some ten levels deep, three levels of a pickle each.
constexpr size_t kDeepest = 500;
/// Ways from the whole to its parts; a model has as many as parts.
constexpr uint64_t kMostPaths = 10'000'000;
/// Structure alone: tensors have entries of their own.
constexpr size_t kMostBytes = 64 << 20;

using Id = uint32_t;
/// A value without parts whose content does not matter.
constexpr Id kAtom = 0;

struct Node {
  enum Kind { Other, Integer, Text, Global, Tuple, Storage, Tensor };
  Kind kind = Other;
  int64_t number = 0; ///< of an integer; elements of a storage; of a global:
                      ///< its name's place
  std::string_view text = {};    ///< of a text, which lies in the pickle
  std::vector<Id> children = {}; ///< what it holds
};

/// Bytes of an element of "FloatStorage" and its like; 0 if not known.
uint64_t elementBytes(std::string_view storage) {
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

class Scanner {
public:
  Scanner(std::string_view pickle, const PickleContext &context)
      : pickle(pickle), context(context), nodes(1) {}

  void run() {
    if (pickle.size() > kMostBytes)
      implausible("has " + std::to_string(pickle.size()) +
                  " bytes; expected at most " + std::to_string(kMostBytes));
    if (take<uint8_t>() != 0x80)
      damaged("does not begin as a pickle");
    take<uint8_t>();
    while (step(take<uint8_t>())) {
    }
    if (stack.empty())
      damaged("is an empty pickle");
    measure(stack.back());
  }

private:
  [[noreturn]] void refuse(ErrorId id, const std::string &what) const {
    throw Error(id, context.where + " " + what);
  }
  [[noreturn]] void damaged(const std::string &what) const {
    refuse(ErrorId::ArchiveDamaged, what + "; copy or export it again");
  }
  [[noreturn]] void implausible(const std::string &what) const {
    refuse(ErrorId::FileImplausible,
           what + "; it is damaged or was made to do harm");
  }

  //===--------------------------------------------------------------------===//
  // Bytes
  //===--------------------------------------------------------------------===//

  std::string_view takeBytes(uint64_t count) {
    if (count > pickle.size() - at)
      implausible("states a text of " + std::to_string(count) +
                  " bytes, where " + std::to_string(pickle.size() - at) +
                  " follow");
    std::string_view bytes = pickle.substr(at, count);
    at += count;
    return bytes;
  }

  template <typename T>
  T take() {
    if (sizeof(T) > pickle.size() - at)
      damaged("ends within an instruction");
    T value;
    std::memcpy(&value, pickle.data() + at, sizeof(T));
    at += sizeof(T);
    return value;
  }

  std::string_view takeLine() {
    size_t end = pickle.find('\n', at);
    if (end == std::string_view::npos)
      damaged("ends within a name");
    std::string_view line = pickle.substr(at, end - at);
    at = end + 1;
    return line;
  }

  //===--------------------------------------------------------------------===//
  // The stack
  //===--------------------------------------------------------------------===//

  void push(Node node) {
    stack.push_back(static_cast<Id>(nodes.size()));
    nodes.push_back(std::move(node));
  }
  void push(int64_t number) { push({.kind = Node::Integer, .number = number}); }

  Id pop() {
    if (stack.size() <= (marks.empty() ? 0 : marks.back()))
      damaged("takes more values than it gave");
    Id id = stack.back();
    stack.pop_back();
    return id;
  }

  Id top() {
    Id id = pop();
    stack.push_back(id);
    return id;
  }

  std::vector<Id> popToMark() {
    if (marks.empty())
      damaged("ends a list that it did not begin");
    std::vector<Id> values(stack.begin() + static_cast<ptrdiff_t>(marks.back()),
                           stack.end());
    stack.resize(marks.back());
    marks.pop_back();
    return values;
  }

  void addTo(Id container, const std::vector<Id> &values) {
    if (nodes[container].kind != Node::Other || container == kAtom)
      damaged("adds to what is no container");
    Node &node = nodes[container];
    node.children.insert(node.children.end(), values.begin(), values.end());
  }

  void pushTuple(size_t count) {
    Node node{.kind = Node::Tuple};
    node.children.resize(count);
    for (size_t i = count; i-- > 0;)
      node.children[i] = pop();
    push(std::move(node));
  }

  void pushText(std::string_view text) {
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

  void checkPairs(const std::vector<Id> &values) {
    if (values.size() % 2)
      damaged("has a key without a value");
  }

  /// Memory is made for all entries below.
  void memoize(uint64_t key) {
    if (key > pickle.size())
      implausible("numbers a value " + std::to_string(key) + ", and has " +
                  std::to_string(pickle.size()) + " bytes");
    memo[key] = top();
  }

  void recall(uint64_t key) {
    auto it = memo.find(key);
    if (it == memo.end())
      damaged("uses a value that it did not give");
    stack.push_back(it->second);
  }

  //===--------------------------------------------------------------------===//
  // Calls
  //===--------------------------------------------------------------------===//

  void pushGlobal() {
    std::string name(takeLine());
    name += '.';
    name += takeLine();
    push({.kind = Node::Global, .number = static_cast<int64_t>(names.size())});
    names.push_back(std::move(name));
  }

  /// ('storage', type, key, device, elements).
  void pushStorage(Id id) {
    const Node &args = nodes[id];
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
      std::optional<uint64_t> bytes = context.storageBytes(name);
      if (!bytes || elements > *bytes / element)
        damaged("states " + std::to_string(elements) + " elements of " +
                std::to_string(element) + " bytes for the storage '" + name +
                "', which has " +
                (bytes ? std::to_string(*bytes) + " bytes" : "no entry"));
    }
    push({.kind = Node::Storage, .number = count.number});
  }

  std::vector<int64_t> integersOf(Id id) const {
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
  void pushTensor(Id id) {
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
      fits =
          !__builtin_mul_overflow(static_cast<uint64_t>(sizes[i] - 1),
                                  static_cast<uint64_t>(strides[i]), &step) &&
          !__builtin_add_overflow(last, step, &last);
    }
    if (!fits || (!isEmpty && last >= elements))
      damaged("has a tensor that lies beyond its storage of " +
              std::to_string(elements) + " elements");
    push({.kind = Node::Tensor});
  }

  void call() {
    Id argument = pop(), function = pop();
    if (nodes[function].kind != Node::Global)
      refuse(ErrorId::ModelNotSupported,
             "calls what is no function of a plain tensor or module");
    const std::string &name =
        names[static_cast<size_t>(nodes[function].number)];
    if (name == "torch._utils._rebuild_tensor_v2")
      return pushTensor(argument);
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

  //===--------------------------------------------------------------------===//
  // Instructions
  //===--------------------------------------------------------------------===//

  /// False at the end.
  bool step(uint8_t code) {
    switch (code) {
    case '.':
      return false;
    case ']':
    case '}':
      push(Node());
      break;
    case ')':
      push({.kind = Node::Tuple});
      break;
    case '(':
      marks.push_back(stack.size());
      break;
    case 0x88: // true
    case 0x89: // false
    case 'N':
      stack.push_back(kAtom);
      break;
    case 'K':
      push(take<uint8_t>());
      break;
    case 'M':
      push(take<uint16_t>());
      break;
    case 'J':
      push(take<int32_t>());
      break;
    case 0x8a: { // a number of so many bytes
      std::string_view bytes = takeBytes(take<uint8_t>());
      if (bytes.size() > 8)
        damaged("holds a number of more than 8 bytes");
      uint64_t value = !bytes.empty() && (bytes.back() & 0x80) ? ~0ull : 0;
      std::memcpy(&value, bytes.data(), bytes.size());
      push(static_cast<int64_t>(value));
      break;
    }
    case 'G':
      take<uint64_t>();
      stack.push_back(kAtom);
      break;
    case 'X':
      pushText(takeBytes(take<uint32_t>()));
      break;
    case 't': {
      Node node{.kind = Node::Tuple, .children = popToMark()};
      push(std::move(node));
      break;
    }
    case 0x85:
    case 0x86:
    case 0x87:
      pushTuple(code - 0x84);
      break;
    case 'l':
      push({.children = popToMark()});
      break;
    case 'd': {
      std::vector<Id> values = popToMark();
      checkPairs(values);
      push({.children = std::move(values)});
      break;
    }
    case 'e': {
      std::vector<Id> values = popToMark();
      addTo(top(), values);
      break;
    }
    case 'a': {
      Id value = pop();
      addTo(top(), {value});
      break;
    }
    case 'u': {
      std::vector<Id> values = popToMark();
      checkPairs(values);
      addTo(top(), values);
      break;
    }
    case 's': {
      Id value = pop(), key = pop();
      addTo(top(), {key, value});
      break;
    }
    case 'q':
      memoize(take<uint8_t>());
      break;
    case 'r':
      memoize(take<uint32_t>());
      break;
    case 'h':
      recall(take<uint8_t>());
      break;
    case 'j':
      recall(take<uint32_t>());
      break;
    case 'c':
      pushGlobal();
      break;
    case 0x81: // a new object: its class stays
      pop();
      break;
    case 'b':
    case 'R':
      call();
      break;
    case 'Q':
      pushStorage(pop());
      break;
    default:
      refuse(ErrorId::ModelNotSupported,
             "has the instruction " + std::to_string(code) +
                 ", which plain tensors and modules do not need");
    }
    return true;
  }

  //===--------------------------------------------------------------------===//
  // Depth
  //===--------------------------------------------------------------------===//

  /// Walks what `root` holds, parts after wholes, without recursion.
  void measure(Id root) {
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
    if (paths[root] > std::max<uint64_t>(kMostPaths, pickle.size()))
      implausible("uses the same values again in more than " +
                  std::to_string(kMostPaths) + " ways");
  }

  std::string_view pickle;
  const PickleContext &context;
  size_t at = 0;
  std::vector<Node> nodes;
  std::vector<std::string> names;
  std::vector<Id> stack;
  std::vector<size_t> marks;
  std::unordered_map<uint64_t, Id> memo;
};

} // namespace

void capture::scanPickle(std::string_view pickle,
                         const PickleContext &context) {
  Scanner(pickle, context).run();
}
