//===- PtxMachine.cpp - Runs PTX without a GPU
//------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/kernels/PtxMachine.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

using namespace fsdp;

static constexpr size_t kWarp = 32;

[[noreturn]] static void fail(const PtxInstruction &instruction,
                              const std::string &what) {
  std::string name;
  for (const std::string &word : instruction.words)
    name += (name.empty() ? "" : ".") + word;
  throw std::runtime_error(name + " " + what);
}

static unsigned bitsOf(const std::string &type) {
  size_t digit = type.find_first_of("0123456789");
  if (digit == std::string::npos)
    return 1; // pred
  if (type == "bf16x2" || type == "f16x2")
    return 32;
  return unsigned(std::stoul(type.substr(digit)));
}

static uint64_t cut(uint64_t value, unsigned bits) {
  return bits >= 64 ? value : value & ((uint64_t{1} << bits) - 1);
}

static int64_t extend(uint64_t value, unsigned bits) {
  return bits >= 64 ? int64_t(value)
                    : int64_t(value << (64 - bits)) >> (64 - bits);
}

static float asFloat(uint64_t bits) {
  return std::bit_cast<float>(uint32_t(bits));
}
static uint64_t asBits(float value) { return std::bit_cast<uint32_t>(value); }

static float widen(uint64_t bits, bool isBf16) {
  return isBf16 ? asFloat((bits & 0xffff) << 16)
                : float(std::bit_cast<_Float16>(uint16_t(bits)));
}

static uint64_t round(float value, bool isBf16) {
  if (std::isnan(value))
    return 0x7fff;
  if (!isBf16)
    return std::bit_cast<uint16_t>(_Float16(value));
  auto bits = uint32_t(asBits(value));
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

//===----------------------------------------------------------------------===//
// Operands and memory
//===----------------------------------------------------------------------===//

uint64_t PtxMachine::get(const Thread &thread,
                         const PtxOperand &operand) const {
  switch (operand.kind) {
  case PtxOperand::Kind::reg:
    return thread.registers[operand.reg];
  case PtxOperand::Kind::thread:
    return thread.number;
  case PtxOperand::Kind::block:
    return block;
  default:
    return operand.number;
  }
}

void PtxMachine::put(Thread &thread, const PtxOperand &operand, uint64_t value,
                     unsigned bits) {
  if (operand.kind == PtxOperand::Kind::reg)
    thread.registers[operand.reg] = cut(value, bits);
}

char *PtxMachine::check(uint64_t address, size_t bytes, bool isShared) {
  if (address % bytes)
    throw std::runtime_error("an access is not aligned");
  if (isShared) {
    if (address + bytes > shared.size())
      throw std::runtime_error("an access is outside of shared memory");
    return &shared[address];
  }
  for (auto [from, size] : allowed)
    if (address >= from && address + bytes <= from + size)
      return reinterpret_cast<char *>(address);
  throw std::runtime_error("an access is outside of all operands");
}

void PtxMachine::access(Thread &thread, const PtxInstruction &instruction) {
  bool isLoad = instruction.word(0) == "ld";
  const PtxOperand &memory = instruction.operands[isLoad ? 1 : 0];
  const PtxOperand &value = instruction.operands[isLoad ? 0 : 1];
  if (instruction.has("param")) {
    auto found = std::ranges::find(program.parameters, memory.name);
    size_t index = size_t(found - program.parameters.begin());
    return put(thread, value, reinterpret_cast<uint64_t>(arguments.at(index)),
               64);
  }
  unsigned bits = bitsOf(instruction.type());
  std::vector<PtxOperand> values =
      value.kind == PtxOperand::Kind::list ? value.list : std::vector{value};
  uint64_t address = memory.kind == PtxOperand::Kind::reg
                         ? thread.registers[memory.reg] + memory.number
                         : memory.number;
  char *at =
      check(address, bits / 8 * values.size(), instruction.has("shared"));
  for (const PtxOperand &each : values) {
    uint64_t loaded = 0;
    if (isLoad) {
      std::memcpy(&loaded, at, bits / 8);
      if (instruction.type()[0] == 's')
        loaded = uint64_t(extend(loaded, bits));
      put(thread, each, loaded, 64);
    } else {
      loaded = get(thread, each);
      std::memcpy(at, &loaded, bits / 8);
    }
    at += bits / 8;
  }
}

/// Also of parts of registers.
void PtxMachine::move(Thread &thread, const PtxInstruction &instruction) {
  unsigned bits = bitsOf(instruction.type());
  const PtxOperand &to = instruction.operands[0],
                   &from = instruction.operands[1];
  uint64_t value = 0;
  if (from.kind == PtxOperand::Kind::list) {
    unsigned part = bits / unsigned(from.list.size());
    for (size_t i = from.list.size(); i-- > 0;)
      value = value << part | cut(get(thread, from.list[i]), part);
  } else {
    value = get(thread, from);
  }
  if (to.kind != PtxOperand::Kind::list)
    return put(thread, to, value, bits);
  unsigned part = bits / unsigned(to.list.size());
  for (const PtxOperand &each : to.list) {
    put(thread, each, value, part);
    value >>= part;
  }
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

void PtxMachine::convert(Thread &thread, const PtxInstruction &instruction) {
  const std::string &from = instruction.type(),
                    &to = instruction.word(instruction.words.size() - 2);
  uint64_t x = get(thread, instruction.operands[1]);
  unsigned bits = bitsOf(to);
  if (to == "bf16x2" || to == "f16x2") {
    uint64_t low = get(thread, instruction.operands[2]);
    bool isBf16 = to == "bf16x2";
    return put(thread, instruction.operands[0],
               round(asFloat(x), isBf16) << 16 | round(asFloat(low), isBf16),
               32);
  }
  bool fromFloat = from[0] == 'f' || from[0] == 'b';
  bool toFloat = to[0] == 'f' || to[0] == 'b';
  if (!fromFloat && !toFloat) {
    uint64_t value = from[0] == 's' ? uint64_t(extend(x, bitsOf(from)))
                                    : cut(x, bitsOf(from));
    // Registers are longer than some types.
    value = to[0] == 's' ? uint64_t(extend(value, bits)) : cut(value, bits);
    return put(thread, instruction.operands[0], value, 64);
  }
  if (!toFloat)
    fail(instruction, "is not known");
  if (!fromFloat) {
    float value = from[0] == 's' ? float(extend(x, bitsOf(from)))
                                 : float(cut(x, bitsOf(from)));
    return put(thread, instruction.operands[0], asBits(value), 32);
  }
  float value = from == "f32" ? asFloat(x) : widen(x, from == "bf16");
  value = instruction.has("rpi")   ? std::ceil(value)
          : instruction.has("rmi") ? std::floor(value)
          : instruction.has("rzi") ? std::trunc(value)
          : instruction.has("rni") ? std::nearbyint(value)
                                   : value;
  put(thread, instruction.operands[0],
      to == "f32" ? asBits(value) : round(value, to == "bf16"), bits);
}

static float computeFloat(const PtxInstruction &instruction, float x, float y,
                          float z) {
  const std::string &name = instruction.word(0);
  if (name == "add")
    return x + y;
  if (name == "sub")
    return x - y;
  if (name == "mul")
    return x * y;
  if (name == "div")
    return x / y;
  if (name == "fma")
    return std::fma(x, y, z);
  if (name == "sqrt")
    return std::sqrt(x);
  if (name == "rcp")
    return 1 / x;
  if (name == "ex2")
    return std::exp2(x);
  if (name == "neg")
    return -x;
  if (name == "abs")
    return std::fabs(x);
  if (name == "min")
    return std::isnan(x) ? y : std::isnan(y) ? x : std::min(x, y);
  if (name == "max")
    return std::isnan(x) ? y : std::isnan(y) ? x : std::max(x, y);
  fail(instruction, "is not known");
}

/// False: it is of no floating-point numbers.
bool PtxMachine::computeFloats(Thread &thread,
                               const PtxInstruction &instruction) {
  const std::string &type = instruction.type();
  bool isHalf = type.ends_with("f16") || type.ends_with("f16x2");
  if (type != "f32" && !isHalf)
    return false;
  uint64_t in[3] = {};
  for (size_t i = 1; i < instruction.operands.size(); ++i)
    in[i - 1] = get(thread, instruction.operands[i]);
  uint64_t result = 0;
  if (!isHalf) {
    // Numbers below the least normal one are 0 to some instructions.
    auto flush = [&](float x) {
      return instruction.has("ftz") && std::fpclassify(x) == FP_SUBNORMAL
                 ? std::copysign(0.0f, x)
                 : x;
    };
    result = asBits(
        flush(computeFloat(instruction, flush(asFloat(in[0])),
                           flush(asFloat(in[1])), flush(asFloat(in[2])))));
  } else {
    bool isBf16 = type[0] == 'b';
    for (unsigned low = 0; low < (type.ends_with("x2") ? 32 : 16); low += 16)
      result |= round(computeFloat(instruction, widen(in[0] >> low, isBf16),
                                   widen(in[1] >> low, isBf16),
                                   widen(in[2] >> low, isBf16)),
                      isBf16)
                << low;
  }
  put(thread, instruction.operands[0], result, 32);
  return true;
}

void PtxMachine::computeIntegers(Thread &thread,
                                 const PtxInstruction &instruction) {
  const std::string &name = instruction.word(0), &type = instruction.type();
  unsigned bits = bitsOf(type);
  bool isSigned = type[0] == 's';
  uint64_t in[3] = {};
  for (size_t i = 1; i < instruction.operands.size() && i < 4; ++i)
    in[i - 1] = get(thread, instruction.operands[i]);
  auto wide = [&](uint64_t x) {
    return isSigned ? uint64_t(extend(x, bits)) : cut(x, bits);
  };
  uint64_t x = wide(in[0]), y = wide(in[1]);
  auto product = isSigned
                     ? (unsigned __int128)((__int128)int64_t(x) * int64_t(y))
                     : (unsigned __int128)x * y;
  uint64_t shift = std::min<uint64_t>(uint32_t(in[1]), bits);
  uint64_t result = 0;
  if (name == "add")
    result = x + y;
  else if (name == "sub")
    result = x - y;
  else if (name == "mul" || name == "mad") {
    result =
        instruction.has("hi") ? uint64_t(product >> bits) : uint64_t(product);
    if (name == "mad")
      result += in[2];
    if (instruction.has("wide"))
      bits *= 2;
  } else if (name == "and")
    result = x & y;
  else if (name == "or")
    result = x | y;
  else if (name == "xor")
    result = x ^ y;
  else if (name == "not")
    result = ~x;
  else if (name == "neg")
    result = -x;
  else if (name == "shl")
    result = shift >= 64 ? 0 : x << shift;
  else if (name == "shr")
    result = isSigned ? uint64_t(int64_t(x) >> std::min<uint64_t>(shift, 63))
             : shift >= 64 ? 0
                           : x >> shift;
  else if (name == "min")
    result =
        isSigned ? uint64_t(std::min(int64_t(x), int64_t(y))) : std::min(x, y);
  else if (name == "max")
    result =
        isSigned ? uint64_t(std::max(int64_t(x), int64_t(y))) : std::max(x, y);
  else if (name == "bfe") {
    auto length = unsigned(in[2] & 255);
    result = cut(x >> std::min<uint64_t>(in[1] & 255, 63), length);
    if (isSigned && length > 0)
      result = uint64_t(extend(result, length));
  } else if (name == "prmt")
    for (unsigned i = 0; i < 4; ++i) {
      uint64_t choice = in[2] >> (4 * i) & 15;
      uint64_t byte = ((x | y << 32) >> (8 * (choice & 7))) & 255;
      if (choice & 8)
        byte = byte & 128 ? 255 : 0;
      result |= byte << (8 * i);
    }
  else
    fail(instruction, "is not known");
  put(thread, instruction.operands[0], result, bits);
}

static bool compareFloats(const std::string &how, float x, float y) {
  bool isUnordered = std::isnan(x) || std::isnan(y);
  if (how == "nan")
    return isUnordered;
  if (how == "num")
    return !isUnordered;
  if (isUnordered)
    return how.back() == 'u';
  std::string base = how.substr(0, 2);
  return base == "eq"   ? x == y
         : base == "ne" ? x != y
         : base == "lt" ? x < y
         : base == "le" ? x <= y
         : base == "gt" ? x > y
                        : x >= y;
}

void PtxMachine::compare(Thread &thread, const PtxInstruction &instruction) {
  const std::string &how = instruction.word(1), &type = instruction.type();
  size_t results = type.ends_with("x2") ? 2 : 1;
  uint64_t x = get(thread, instruction.operands[results]),
           y = get(thread, instruction.operands[results + 1]);
  for (size_t i = 0; i < results; ++i) {
    bool result = false;
    if (type == "f32") {
      result = compareFloats(how, asFloat(x), asFloat(y));
    } else if (type.find('f') != std::string::npos) {
      bool isBf16 = type[0] == 'b';
      result = compareFloats(how, widen(x >> (16 * i), isBf16),
                             widen(y >> (16 * i), isBf16));
    } else {
      unsigned bits = bitsOf(type);
      auto order = type[0] == 's' ? extend(x, bits) <=> extend(y, bits)
                                  : cut(x, bits) <=> cut(y, bits);
      result = how == "eq"   ? order == 0
               : how == "ne" ? order != 0
               : how == "lt" ? order < 0
               : how == "le" ? order <= 0
               : how == "gt" ? order > 0
                             : order >= 0;
    }
    put(thread, instruction.operands[i], result, 1);
  }
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

static bool isShared(const PtxInstruction &instruction) {
  return instruction.word(0) == "bar" || instruction.word(0) == "shfl";
}

void PtxMachine::step(Thread &thread, const PtxInstruction &instruction) {
  const std::string &name = instruction.word(0);
  const std::vector<PtxOperand> &operands = instruction.operands;
  if (name == "ret")
    thread.isDone = true;
  else if (name == "bra")
    thread.at = program.labels.at(operands[0].name);
  else if (name == "ld" || name == "st")
    access(thread, instruction);
  else if (name == "mov")
    move(thread, instruction);
  else if (name == "cvt")
    convert(thread, instruction);
  else if (name == "setp")
    compare(thread, instruction);
  else if (name == "selp")
    put(thread, operands[0],
        get(thread, operands[get(thread, operands[3]) ? 1 : 2]),
        bitsOf(instruction.type()));
  else if (!computeFloats(thread, instruction))
    computeIntegers(thread, instruction);
}

void PtxMachine::runAlone(Thread &thread) {
  while (!thread.isDone) {
    const PtxInstruction &instruction = program.code.at(thread.at);
    if (isShared(instruction))
      return;
    ++thread.at;
    if (instruction.predicate < 0 ||
        bool(thread.registers[size_t(instruction.predicate)]) !=
            instruction.isNegated)
      step(thread, instruction);
  }
}

/// A shuffle by all threads of a warp.
bool PtxMachine::exchange(size_t firstThread) {
  Thread *warp = &threads[firstThread];
  size_t at = warp[0].at;
  if (warp[0].isDone)
    return false;
  const PtxInstruction &instruction = program.code.at(at);
  for (size_t i = 0; i < kWarp; ++i)
    if (warp[i].isDone || warp[i].at != at || instruction.word(0) != "shfl")
      return false;
  uint64_t sent[kWarp];
  for (size_t i = 0; i < kWarp; ++i)
    sent[i] = get(warp[i], instruction.operands[1]);
  for (size_t i = 0; i < kWarp; ++i) {
    size_t from = i ^ size_t(get(warp[i], instruction.operands[2]));
    put(warp[i], instruction.operands[0], sent[from % kWarp], 32);
    ++warp[i].at;
  }
  return true;
}

/// Lets threads go on that all wait at the same place.
bool PtxMachine::release(size_t first, size_t count, const char *word) {
  size_t at = threads[first].at;
  for (size_t i = first; i < first + count; ++i)
    if (threads[i].isDone || threads[i].at != at)
      return false;
  const PtxInstruction &instruction = program.code.at(at);
  if (instruction.word(0) != "bar" || instruction.word(1) != word)
    return false;
  for (size_t i = first; i < first + count; ++i)
    ++threads[i].at;
  return true;
}

void PtxMachine::runBlock(uint32_t count) {
  threads.assign(count, {});
  shared.assign(program.sharedBytes, 0);
  for (uint32_t i = 0; i < count; ++i) {
    threads[i].registers.resize(program.registers);
    threads[i].number = i;
  }
  for (bool isMoving = true; isMoving;) {
    isMoving = false;
    for (Thread &thread : threads)
      runAlone(thread);
    for (size_t warp = 0; warp < count; warp += kWarp)
      isMoving |= exchange(warp) || release(warp, kWarp, "warp");
    isMoving |= release(0, count, "sync");
  }
  for (const Thread &thread : threads)
    if (!thread.isDone)
      throw std::runtime_error("threads wait for one another for ever");
}

void PtxMachine::launch(uint32_t blocks, uint32_t count,
                        const std::vector<void *> &given) {
  arguments = given;
  for (block = 0; block < blocks; ++block)
    runBlock(count);
}
