//===- Interpreter.cpp - Runs a kernel's program as it is read ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/Interpreter.h"

#include "kernels/Math.h"
#include "plan/DType.h"
#include "plan/Kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace fsdp;
using plan::DType;
using plan::KernelOperandT;
using plan::KernelOpT;
using plan::KernelProgramT;

namespace {

/// A builder (Math.h) that computes.
struct Numbers {
  using F = float;
  using I = int32_t;
  using B = bool;

  F number(float value, F) { return value; }
  I bits(int32_t value, I) { return value; }
  F add(F x, F y) { return x + y; }
  F sub(F x, F y) { return x - y; }
  F mul(F x, F y) { return x * y; }
  F div(F x, F y) { return x / y; }
  F fma(F x, F y, F z) { return std::fma(x, y, z); }
  F sqrt(F x) { return std::sqrt(x); }
  F floor(F x) { return std::floor(x); }
  F ceil(F x) { return std::ceil(x); }
  F trunc(F x) { return std::trunc(x); }
  F nearest(F x) { return std::nearbyint(x); }
  // Of unsigned ones, which wrap around.
  I addBits(I x, I y) { return I(uint32_t(x) + uint32_t(y)); }
  I subBits(I x, I y) { return I(uint32_t(x) - uint32_t(y)); }
  I andBits(I x, I y) { return x & y; }
  I orBits(I x, I y) { return x | y; }
  I shiftLeft(I x, unsigned by) { return I(uint32_t(x) << by); }
  I shiftRight(I x, unsigned by) { return I(uint32_t(x) >> by); }
  I shiftRightSigned(I x, unsigned by) { return x >> by; }
  I asBits(F x) { return std::bit_cast<I>(x); }
  F asNumber(I x) { return std::bit_cast<F>(x); }
  F fromBits(I x) { return float(x); }
  B less(F x, F y) { return x < y; }
  B lessEqual(F x, F y) { return x <= y; }
  B equal(F x, F y) { return x == y; }
  B isNan(F x) { return x != x; }
  B orTruth(B x, B y) { return x || y; }
  F select(B which, F x, F y) { return which ? x : y; }
  I selectBits(B which, I x, I y) { return which ? x : y; }
};

/// An element of any of the three types.
union Element {
  float f;
  int64_t i;
  bool b;
};
using Row = std::vector<Element>;

/// Columns of a flat program that are computed at once.
constexpr int64_t kPiece = 4096;

} // namespace

/// By operation: the number of the last one that reads it, which its row is
/// kept for; one that is written is kept to the end.
static std::vector<size_t> findLastReaders(const KernelProgramT &program) {
  std::vector<size_t> last(program.ops.size());
  for (size_t i = 0; i < program.ops.size(); ++i) {
    last[i] = i;
    for (uint32_t argument : program.ops[i]->args)
      last[argument] = i;
  }
  for (const auto &operand : program.operands)
    if (operand->written != -1)
      last[static_cast<size_t>(operand->written)] = program.ops.size();
  return last;
}

namespace {

class Interpreter {
public:
  Interpreter(const KernelProgramT &program, std::span<void *const> operands)
      : program(program), operands(operands), values(valuesOf(program)),
        last(findLastReaders(program)), rows(program.ops.size()) {}

  /// Columns `begin` to `end` - 1 of a flat program's row.
  void runPiece(int64_t begin, int64_t end) {
    first = begin;
    width = end - begin;
    runRow(0);
  }
  void runRow(int64_t row);

private:
  size_t columnsOf(size_t op) const {
    return values[op].columns == 1 || width < 0 ? values[op].columns
                                                : size_t(width);
  }
  int64_t offsetOf(const KernelOperandT &operand, int64_t row) const;
  Row load(size_t operand, int64_t row) const;
  void store(size_t operand, int64_t row) const;
  Row compute(const KernelOpT &op, size_t columns, int64_t row);
  Element compute(KernelOpKind kind, std::span<const Element> in);
  float reduce(KernelOpKind kind, const Row &row);

  const KernelProgramT &program;
  std::span<void *const> operands;
  std::vector<KernelValue> values;
  std::vector<size_t> last;
  std::vector<Row> rows;         ///< by operation: of the row at hand
  int64_t first = 0, width = -1; ///< of a piece; -1: all columns
  Numbers numbers;
  KernelMath<Numbers> math{numbers};
};

} // namespace

/// Elements from an operand's first one to its first one in `row`.
int64_t Interpreter::offsetOf(const KernelOperandT &operand,
                              int64_t row) const {
  int64_t offset = 0;
  for (size_t dim = program.rows.size(); dim-- > 0;) {
    offset += row % program.rows[dim] * operand.row_strides[dim];
    row /= program.rows[dim];
  }
  return offset;
}

/// f16 as f32.
static float widenHalf(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, rest = bits & 0x7fff;
  if (rest >= 0x7c00) // infinities and NaNs
    return std::bit_cast<float>(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  // 2^-24 is the least; halves' numbers are all exact in f32.
  float size = rest < 0x400 ? float(rest) * 0x1p-24f
                            : std::bit_cast<float>((rest << 13) + (112u << 23));
  return std::bit_cast<float>(std::bit_cast<uint32_t>(size) | sign);
}

/// The bits of a number that is one of f16's.
static uint16_t narrowHalf(float number) {
  uint32_t bits = std::bit_cast<uint32_t>(number);
  auto sign = uint16_t(bits >> 16 & 0x8000);
  uint32_t rest = bits & 0x7fffffff;
  if (rest > 0x7f800000)
    return 0x7e00;
  if (rest == 0x7f800000)
    return sign | 0x7c00;
  if (rest < 113u << 23)
    return sign | uint16_t(std::bit_cast<float>(rest) * 0x1p24f);
  return sign | uint16_t((rest - (112u << 23)) >> 13);
}

template <typename T>
static T read(const void *at, int64_t index) {
  T value;
  std::memcpy(&value,
              static_cast<const char *>(at) + index * int64_t(sizeof(T)),
              sizeof(T));
  return value;
}

template <typename T>
static void write(void *at, int64_t index, T value) {
  std::memcpy(static_cast<char *>(at) + index * int64_t(sizeof(T)), &value,
              sizeof(T));
}

static Element read(DType dtype, const void *at, int64_t index) {
  switch (dtype) {
  case DType::f32:
    return {.f = read<float>(at, index)};
  case DType::bf16:
    return {
        .f = std::bit_cast<float>(uint32_t(read<uint16_t>(at, index)) << 16)};
  case DType::f16:
    return {.f = widenHalf(read<uint16_t>(at, index))};
  case DType::i64:
    return {.i = read<int64_t>(at, index)};
  case DType::i32:
    return {.i = read<int32_t>(at, index)};
  case DType::i16:
    return {.i = read<int16_t>(at, index)};
  case DType::i8:
    return {.i = read<int8_t>(at, index)};
  case DType::u8:
    return {.i = read<uint8_t>(at, index)};
  default:
    return {.b = read<uint8_t>(at, index) != 0};
  }
}

static void write(DType dtype, void *at, int64_t index, Element value,
                  KernelMath<Numbers> &math) {
  switch (dtype) {
  case DType::f32:
    return write(at, index, value.f);
  case DType::bf16:
    return write(
        at, index,
        uint16_t(std::bit_cast<uint32_t>(math.roundBf16(value.f)) >> 16));
  case DType::f16:
    return write(at, index, narrowHalf(math.roundF16(value.f)));
  case DType::f8e4m3fn:
  case DType::f8e5m2:
    return write(at, index,
                 uint8_t(math.toFloat8(value.f, dtype == DType::f8e4m3fn)));
  case DType::i64:
    return write(at, index, value.i);
  case DType::i32:
    return write(at, index, int32_t(value.i));
  case DType::i16:
    return write(at, index, int16_t(value.i));
  case DType::i8:
  case DType::u8:
    return write(at, index, uint8_t(value.i));
  default:
    return write(at, index, uint8_t(value.b));
  }
}

Row Interpreter::load(size_t operand, int64_t row) const {
  const KernelOperandT &from = *program.operands[operand];
  bool isPiece = width >= 0 && from.columns > 1;
  int64_t offset =
      offsetOf(from, row) + (isPiece ? first * from.column_stride : 0);
  Row result(isPiece ? size_t(width) : from.columns);
  for (size_t c = 0; c < result.size(); ++c)
    result[c] = read(from.dtype, operands[operand],
                     offset + int64_t(c) * from.column_stride);
  return result;
}

void Interpreter::store(size_t operand, int64_t row) const {
  const KernelOperandT &to = *program.operands[operand];
  const Row &from = rows[size_t(to.written)];
  void *at = operands[operand];
  if (takesRowSum(program, operand)) {
    for (size_t c = 0; c < from.size(); ++c)
      write(at, int64_t(c), read<float>(at, int64_t(c)) + from[c].f);
    return;
  }
  KernelMath<Numbers> rounding(const_cast<Numbers &>(numbers));
  bool isPiece = width >= 0 && to.columns > 1;
  int64_t offset = offsetOf(to, row) + (isPiece ? first * to.column_stride : 0);
  for (size_t c = 0; c < from.size(); ++c)
    write(to.dtype, at, offset + int64_t(c) * to.column_stride, from[c],
          rounding);
}

float Interpreter::reduce(KernelOpKind kind, const Row &row) {
  bool isSum = kind == KernelOpKind::sum_columns;
  auto combine = [&](float x, float y) {
    return isSum ? x + y : math.maximum(x, y);
  };
  float partial[kKernelLanes];
  std::ranges::fill(partial,
                    isSum ? 0 : -std::numeric_limits<float>::infinity());
  for (size_t c = 0; c < row.size(); ++c)
    partial[c % kKernelLanes] = combine(partial[c % kKernelLanes], row[c].f);
  for (size_t distance = kKernelLanes / 2; distance; distance /= 2)
    for (size_t lane = 0; lane < distance; ++lane)
      partial[lane] = combine(partial[lane], partial[lane + distance]);
  return partial[0];
}

Element Interpreter::compute(KernelOpKind kind, std::span<const Element> in) {
  auto wrap = [](uint64_t value) { return Element{.i = int64_t(value)}; };
  switch (kind) {
  case KernelOpKind::neg:
    return {.f = math.neg(in[0].f)};
  case KernelOpKind::abs:
    return {.f = math.abs(in[0].f)};
  case KernelOpKind::sqrt:
    return {.f = numbers.sqrt(in[0].f)};
  case KernelOpKind::exp:
    return {.f = math.exp(in[0].f)};
  case KernelOpKind::log:
    return {.f = math.log(in[0].f)};
  case KernelOpKind::tanh:
    return {.f = math.tanh(in[0].f)};
  case KernelOpKind::erf:
    return {.f = math.erf(in[0].f)};
  case KernelOpKind::floor:
    return {.f = numbers.floor(in[0].f)};
  case KernelOpKind::ceil:
    return {.f = numbers.ceil(in[0].f)};
  case KernelOpKind::trunc:
    return {.f = numbers.trunc(in[0].f)};
  case KernelOpKind::round_even:
    return {.f = numbers.nearest(in[0].f)};
  case KernelOpKind::add:
    return {.f = in[0].f + in[1].f};
  case KernelOpKind::sub:
    return {.f = in[0].f - in[1].f};
  case KernelOpKind::mul:
    return {.f = in[0].f * in[1].f};
  case KernelOpKind::div:
    return {.f = in[0].f / in[1].f};
  case KernelOpKind::maximum:
    return {.f = math.maximum(in[0].f, in[1].f)};
  case KernelOpKind::minimum:
    return {.f = math.minimum(in[0].f, in[1].f)};
  case KernelOpKind::fma:
    return {.f = std::fma(in[0].f, in[1].f, in[2].f)};
  case KernelOpKind::equal:
    return {.b = in[0].f == in[1].f};
  case KernelOpKind::less:
    return {.b = in[0].f < in[1].f};
  case KernelOpKind::less_equal:
    return {.b = in[0].f <= in[1].f};
  case KernelOpKind::add_integers:
    return wrap(uint64_t(in[0].i) + uint64_t(in[1].i));
  case KernelOpKind::sub_integers:
    return wrap(uint64_t(in[0].i) - uint64_t(in[1].i));
  case KernelOpKind::mul_integers:
    return wrap(uint64_t(in[0].i) * uint64_t(in[1].i));
  case KernelOpKind::equal_integers:
    return {.b = in[0].i == in[1].i};
  case KernelOpKind::less_integers:
    return {.b = in[0].i < in[1].i};
  case KernelOpKind::less_equal_integers:
    return {.b = in[0].i <= in[1].i};
  case KernelOpKind::logical_and:
    return {.b = in[0].b && in[1].b};
  case KernelOpKind::logical_or:
    return {.b = in[0].b || in[1].b};
  case KernelOpKind::logical_xor:
    return {.b = in[0].b != in[1].b};
  case KernelOpKind::logical_not:
    return {.b = !in[0].b};
  case KernelOpKind::select:
    return in[0].b ? in[1] : in[2];
  case KernelOpKind::to_f32:
    return {.f = float(in[0].i)};
  case KernelOpKind::round_bf16:
    return {.f = math.roundBf16(in[0].f)};
  case KernelOpKind::round_f16:
    return {.f = math.roundF16(in[0].f)};
  default: // sum_rows, which is what it sums until it is stored
    return in[0];
  }
}

Row Interpreter::compute(const KernelOpT &op, size_t columns, int64_t row) {
  KernelOpKind kind = kindOf(op);
  switch (kind) {
  case KernelOpKind::load:
    return load(size_t(op.integers[0]), row);
  case KernelOpKind::constant:
    return {Element{.f = float(op.number)}};
  case KernelOpKind::integer:
    return {Element{.i = op.integers[0]}};
  case KernelOpKind::column: {
    Row result(columns);
    for (size_t c = 0; c < columns; ++c)
      result[c].i = int64_t(c);
    return result;
  }
  case KernelOpKind::slice: {
    auto begin = rows[op.args[0]].begin() + op.integers[0];
    return {begin, begin + op.integers[1]};
  }
  case KernelOpKind::cat: {
    Row result;
    for (uint32_t argument : op.args)
      result.insert(result.end(), rows[argument].begin(), rows[argument].end());
    return result;
  }
  case KernelOpKind::repeat:
    return Row(columns, rows[op.args[0]][0]);
  case KernelOpKind::sum_columns:
  case KernelOpKind::max_columns:
    return {Element{.f = reduce(kind, rows[op.args[0]])}};
  default:
    break;
  }
  Row result(columns);
  Element in[3];
  for (size_t c = 0; c < columns; ++c) {
    for (size_t i = 0; i < op.args.size(); ++i) {
      const Row &argument = rows[op.args[i]];
      in[i] = argument[values[op.args[i]].columns == 1 ? 0 : c];
    }
    result[c] = compute(kind, std::span(in, op.args.size()));
  }
  return result;
}

void Interpreter::runRow(int64_t row) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    rows[i] = compute(*program.ops[i], columnsOf(i), row);
    for (uint32_t argument : program.ops[i]->args)
      if (last[argument] == i)
        Row().swap(rows[argument]);
    if (last[i] == i)
      Row().swap(rows[i]);
  }
  for (size_t i = 0; i < program.operands.size(); ++i)
    if (program.operands[i]->written != -1)
      store(i, row);
}

uint64_t fsdp::interpretedBytes(const KernelProgramT &program) {
  std::vector<KernelValue> values = valuesOf(program);
  std::vector<size_t> last = findLastReaders(program);
  bool takesPieces = isFlat(program);
  auto bytesOf = [&](size_t op) {
    uint64_t columns = values[op].columns;
    return sizeof(Element) *
           (takesPieces ? std::min(columns, uint64_t{kPiece}) : columns);
  };
  uint64_t now = 0, most = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    now += bytesOf(i);
    most = std::max(most, now);
    std::vector<uint32_t> dead = program.ops[i]->args;
    dead.push_back(static_cast<uint32_t>(i));
    std::ranges::sort(dead);
    auto [behind, end] = std::ranges::unique(dead);
    for (uint32_t op : std::span(dead.begin(), behind))
      if (last[op] == i)
        now -= bytesOf(op);
  }
  return most;
}

void fsdp::interpret(const KernelProgramT &program,
                     std::span<void *const> operands, int64_t begin,
                     int64_t end) {
  Interpreter interpreter(program, operands);
  if (!isFlat(program)) {
    for (int64_t row = begin; row < end; ++row)
      interpreter.runRow(row);
    return;
  }
  for (; begin < end; begin += kPiece)
    interpreter.runPiece(begin, std::min(end, begin + kPiece));
}
