//===- PickleScan.cpp - Looks at a pickle before it is trusted ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/archive/PickleScan.h"

#include "ir/capture/archive/PickleStack.h"

#include <cstring>

using namespace fsdp;
using namespace fsdp::capture;

/// Structure alone: tensors have entries of their own.
static constexpr size_t kMostBytes = 64 << 20;

namespace {

/// Instructions that are followed by nothing of theirs.
struct StackAction {
  uint8_t code;
  void (*act)(PickleStack &values);
};
constexpr StackAction kStackActions[] = {
    {']', [](PickleStack &values) { values.pushList(); }},
    {'}', [](PickleStack &values) { values.pushDict(); }},
    {')', [](PickleStack &values) { values.pushTuple(0); }},
    {0x85, [](PickleStack &values) { values.pushTuple(1); }},
    {0x86, [](PickleStack &values) { values.pushTuple(2); }},
    {0x87, [](PickleStack &values) { values.pushTuple(3); }},
    {'(', [](PickleStack &values) { values.mark(); }},
    {0x88, [](PickleStack &values) { values.pushAtom(); }}, // true
    {0x89, [](PickleStack &values) { values.pushAtom(); }}, // false
    {'N', [](PickleStack &values) { values.pushAtom(); }},
    {'t', [](PickleStack &values) { values.pushTupleToMark(); }},
    {'l', [](PickleStack &values) { values.pushListToMark(); }},
    {'d', [](PickleStack &values) { values.pushDictToMark(); }},
    {'e', [](PickleStack &values) { values.addToMark(/*arePairs=*/false); }},
    {'u', [](PickleStack &values) { values.addToMark(/*arePairs=*/true); }},
    {'a', [](PickleStack &values) { values.add(1); }},
    {'s', [](PickleStack &values) { values.add(2); }},
    // A new object: its class stays.
    {0x81, [](PickleStack &values) { values.drop(); }},
    {'b', [](PickleStack &values) { values.call(); }},
    {'R', [](PickleStack &values) { values.call(); }},
    {'Q', [](PickleStack &values) { values.pushStorage(); }},
};

class Scanner : PickleErrors {
public:
  Scanner(std::string_view pickle, const PickleContext &context)
      : PickleErrors{context.where}, pickle(pickle),
        values(pickle.size(), context) {}

  std::vector<uint32_t> run() {
    if (pickle.size() > kMostBytes)
      implausible("has " + std::to_string(pickle.size()) +
                  " bytes; expected at most " + std::to_string(kMostBytes));
    if (take<uint8_t>() != 0x80)
      damaged("does not begin as a pickle");
    take<uint8_t>();
    for (uint8_t code; (code = take<uint8_t>()) != '.';)
      step(code);
    return values.finish();
  }

private:
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

  void pushGlobal() {
    std::string name(takeLine());
    name += '.';
    name += takeLine();
    values.pushGlobal(std::move(name));
  }

  /// A number of so many bytes.
  int64_t takeNumber() {
    std::string_view bytes = takeBytes(take<uint8_t>());
    if (bytes.size() > 8)
      damaged("holds a number of more than 8 bytes");
    uint64_t value = !bytes.empty() && (bytes.back() & 0x80) ? ~0ull : 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    return static_cast<int64_t>(value);
  }

  void step(uint8_t code) {
    for (const StackAction &each : kStackActions)
      if (each.code == code)
        return each.act(values);
    switch (code) {
    case 'K':
      return values.pushNumber(take<uint8_t>());
    case 'M':
      return values.pushNumber(take<uint16_t>());
    case 'J':
      return values.pushNumber(take<int32_t>());
    case 0x8a:
      return values.pushNumber(takeNumber());
    case 'G':
      take<uint64_t>();
      return values.pushAtom();
    case 'X':
      return values.pushText(takeBytes(take<uint32_t>()));
    case 'q':
      return values.memoize(take<uint8_t>());
    case 'r':
      return values.memoize(take<uint32_t>());
    case 'h':
      return values.recall(take<uint8_t>());
    case 'j':
      return values.recall(take<uint32_t>());
    case 'c':
      return pushGlobal();
    default:
      refuse(ErrorId::ModelNotSupported,
             "has the instruction " + std::to_string(code) +
                 ", which plain tensors and modules do not need");
    }
  }

  std::string_view pickle;
  PickleStack values;
  size_t at = 0;
};

} // namespace

std::vector<uint32_t> capture::scanPickle(std::string_view pickle,
                                          const PickleContext &context) {
  return Scanner(pickle, context).run();
}
