//===- PickleStack.h - What a pickle's instructions make --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_ARCHIVE_PICKLESTACK_H
#define FSDP_IR_CAPTURE_ARCHIVE_PICKLESTACK_H

#include "ir/capture/archive/PickleErrors.h"
#include "ir/capture/archive/PickleScan.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace fsdp::capture {

/// The values of a pickle, as far as they can do harm: which holds which,
/// lengths, and what tensors are made of. Members throw Error for what no
/// plain tensors and modules need.
class PickleStack : private PickleErrors {
public:
  /// `bytes`: of the pickle.
  PickleStack(size_t bytes, const PickleContext &context)
      : PickleErrors{context.where}, bytes(bytes), context(context), nodes(1) {}

  void pushAtom() { stack.push_back(kAtom); }
  void pushList() { push({.kind = Node::List}); }
  void pushDict() { push({.kind = Node::Dict}); }
  void pushNumber(int64_t number) {
    push({.kind = Node::Integer, .number = number});
  }
  void pushText(std::string_view text);
  /// "module.name".
  void pushGlobal(std::string name);
  /// Of the topmost `count` values.
  void pushTuple(size_t count);
  /// Takes what describes a storage.
  void pushStorage();
  void drop() { pop(); }

  void mark() { marks.push_back(stack.size()); }
  void pushTupleToMark();
  void pushListToMark();
  void pushDictToMark();
  /// To the container below the mark.
  void addToMark(bool arePairs);
  /// The topmost `count` values, to the container below them.
  void add(size_t count);

  void memoize(uint64_t key);
  void recall(uint64_t key);
  /// Takes a function and its arguments.
  void call();

  /// Of what is left: the pickle's value, whose leaves these are, as scanPickle
  /// returns them.
  std::vector<uint32_t> finish();

private:
  using Id = uint32_t;
  /// A value without parts whose content does not matter.
  static constexpr Id kAtom = 0;

  struct Node {
    enum Kind {
      Other,
      Integer,
      Text,
      Global,
      Tuple,
      List,
      Dict,
      Storage,
      Tensor
    };
    Kind kind = Other;
    int64_t number = 0; ///< of an integer; elements of a storage; of a global:
                        ///< its name's place
    std::string_view text = {};    ///< of a text, which lies in the pickle
    std::vector<Id> children = {}; ///< what it holds
  };

  void push(Node node);
  Id pop();
  Id top();
  std::vector<Id> popMany(size_t count);
  std::vector<Id> popToMark();
  void checkPairs(const std::vector<Id> &values) const;
  void addTo(Id container, const std::vector<Id> &values);
  std::vector<int64_t> integersOf(Id id) const;
  void pushTensor(Id id);
  void measure(Id root) const;
  void addLeaves(Id id, std::vector<uint32_t> &leaves) const;

  const size_t bytes;
  const PickleContext &context;
  std::vector<Node> nodes;
  std::vector<std::string> names;
  std::vector<Id> stack;
  std::vector<size_t> marks;
  std::unordered_map<uint64_t, Id> memo;
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_ARCHIVE_PICKLESTACK_H
