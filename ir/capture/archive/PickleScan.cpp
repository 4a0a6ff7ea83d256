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
    while (step(take<uint8_t>())) {
    }
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

  /// False at the end.
  bool step(uint8_t code) {
    switch (code) {
    case '.':
      return false;
    case ']':
      values.pushList();
      break;
    case '}':
      values.pushDict();
      break;
    case ')':
      values.pushTuple(0);
      break;
    case '(':
      values.mark();
      break;
    case 0x88: // true
    case 0x89: // false
    case 'N':
      values.pushAtom();
      break;
    case 'K':
      values.pushNumber(take<uint8_t>());
      break;
    case 'M':
      values.pushNumber(take<uint16_t>());
      break;
    case 'J':
      values.pushNumber(take<int32_t>());
      break;
    case 0x8a: { // a number of so many bytes
      std::string_view bytes = takeBytes(take<uint8_t>());
      if (bytes.size() > 8)
        damaged("holds a number of more than 8 bytes");
      uint64_t value = !bytes.empty() && (bytes.back() & 0x80) ? ~0ull : 0;
      std::memcpy(&value, bytes.data(), bytes.size());
      values.pushNumber(static_cast<int64_t>(value));
      break;
    }
    case 'G':
      take<uint64_t>();
      values.pushAtom();
      break;
    case 'X':
      values.pushText(takeBytes(take<uint32_t>()));
      break;
    case 't':
      values.pushTupleToMark();
      break;
    case 0x85:
    case 0x86:
    case 0x87:
      values.pushTuple(code - 0x84);
      break;
    case 'l':
      values.pushListToMark();
      break;
    case 'd':
      values.pushDictToMark();
      break;
    case 'e':
      values.addToMark(/*arePairs=*/false);
      break;
    case 'a':
      values.add(1);
      break;
    case 'u':
      values.addToMark(/*arePairs=*/true);
      break;
    case 's':
      values.add(2);
      break;
    case 'q':
      values.memoize(take<uint8_t>());
      break;
    case 'r':
      values.memoize(take<uint32_t>());
      break;
    case 'h':
      values.recall(take<uint8_t>());
      break;
    case 'j':
      values.recall(take<uint32_t>());
      break;
    case 'c':
      pushGlobal();
      break;
    case 0x81: // a new object: its class stays
      values.drop();
      break;
    case 'b':
    case 'R':
      values.call();
      break;
    case 'Q':
      values.pushStorage();
      break;
    default:
      refuse(ErrorId::ModelNotSupported,
             "has the instruction " + std::to_string(code) +
                 ", which plain tensors and modules do not need");
    }
    return true;
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
