//===- Programs.cpp - Programs of kernels to try --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/kernels/Programs.h"

#include <algorithm>
#include <numeric>

using namespace fsdp;
using plan::DType;

//===----------------------------------------------------------------------===//
// By hand
//===----------------------------------------------------------------------===//

size_t ProgramBuilder::addOperand(DType dtype, uint64_t columns,
                                  std::vector<int64_t> rowStrides,
                                  int64_t columnStride, int32_t written) {
  auto operand = std::make_unique<plan::KernelOperandT>();
  operand->dtype = dtype;
  operand->columns = columns;
  operand->row_strides = std::move(rowStrides);
  operand->column_stride = columnStride;
  operand->written = written;
  program.operands.push_back(std::move(operand));
  return program.operands.size() - 1;
}

std::vector<int64_t> ProgramBuilder::contiguous(uint64_t columns) const {
  std::vector<int64_t> strides(program.rows.size());
  auto stride = int64_t(columns);
  for (size_t dim = strides.size(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= std::max<int64_t>(program.rows[dim], 1);
  }
  return strides;
}

uint32_t ProgramBuilder::load(DType dtype, uint64_t columns) {
  return load(dtype, columns, contiguous(columns), 1);
}

uint32_t ProgramBuilder::load(DType dtype, uint64_t columns,
                              std::vector<int64_t> rowStrides,
                              int64_t columnStride) {
  size_t operand =
      addOperand(dtype, columns, std::move(rowStrides), columnStride, -1);
  return op(KernelOpKind::load, {}, {int64_t(operand)});
}

uint32_t ProgramBuilder::op(KernelOpKind kind, std::vector<uint32_t> args,
                            std::vector<int64_t> integers, double number) {
  auto op = std::make_unique<plan::KernelOpT>();
  op->kind = uint8_t(kind);
  op->args = std::move(args);
  op->integers = std::move(integers);
  op->number = number;
  program.ops.push_back(std::move(op));
  known = valuesOf(program);
  return uint32_t(program.ops.size() - 1);
}

void ProgramBuilder::store(DType dtype, uint32_t op) {
  store(dtype, op, contiguous(known[op].columns), 1);
}

void ProgramBuilder::store(DType dtype, uint32_t op,
                           std::vector<int64_t> rowStrides,
                           int64_t columnStride) {
  addOperand(dtype, known[op].columns, std::move(rowStrides), columnStride,
             int32_t(op));
}

void ProgramBuilder::storeSum(uint32_t of, DType dtype) {
  uint32_t sum = op(KernelOpKind::sum_rows, {of});
  addOperand(dtype, known[sum].columns,
             std::vector<int64_t>(program.rows.size()), 1, int32_t(sum));
}

//===----------------------------------------------------------------------===//
// By chance
//===----------------------------------------------------------------------===//

namespace {

constexpr DType kFloats[] = {DType::f32, DType::bf16, DType::f16};
constexpr DType kIntegers[] = {DType::i64, DType::i32, DType::i16, DType::i8,
                               DType::u8};

class Chance {
public:
  explicit Chance(std::mt19937_64 &random) : random(random), builder(rows()) {}
  plan::KernelProgramT make();

private:
  int64_t below(int64_t end) {
    return int64_t(random() % uint64_t(std::max<int64_t>(end, 1)));
  }
  bool once(int64_t in) { return below(in) == 0; }
  template <typename T, size_t N>
  T oneOf(const T (&list)[N]) {
    return list[below(N)];
  }
  std::vector<int64_t> rows();
  DType dtypeOf(KernelType type);
  DType anyDtype() {
    return dtypeOf(KernelType(std::min<int64_t>(below(8) / 5 + once(8), 2)));
  }
  uint64_t someColumns();
  std::vector<int64_t> strides(uint64_t extent, bool isRead);
  void addLoad();
  void addOp();
  void addMove();
  bool addElementwise(const KernelOpFacts &facts);
  /// An operation of that type and of so many columns, or one; -1: none.
  int64_t find(char letter, uint64_t columns, KernelType *same);
  void addStore();

  std::mt19937_64 &random;
  ProgramBuilder builder;
  uint64_t columns = 1;
};

} // namespace

std::vector<int64_t> Chance::rows() {
  std::vector<int64_t> rows(size_t(below(4)));
  for (int64_t &size : rows)
    size = once(12) ? 20 : 1 + below(4);
  if (!rows.empty() && once(40))
    rows[0] = 0;
  return rows;
}

DType Chance::dtypeOf(KernelType type) {
  return type == KernelType::f32   ? oneOf(kFloats)
         : type == KernelType::i64 ? oneOf(kIntegers)
                                   : DType::bool_;
}

uint64_t Chance::someColumns() {
  static constexpr int64_t kLengths[] = {1,  2,  7,  8,   16,  32,
                                         64, 65, 96, 128, 192, 300};
  return uint64_t(once(2) ? oneOf(kLengths) : 1 + below(300));
}

/// For rows of `extent` elements: side by side, further apart, in another order
/// of the dims, or, to be read, the same for all of a dim.
std::vector<int64_t> Chance::strides(uint64_t extent, bool isRead) {
  size_t dims = builder.program.rows.size();
  std::vector<size_t> order(dims);
  std::iota(order.begin(), order.end(), 0);
  if (once(4))
    std::ranges::shuffle(order, random);
  std::vector<int64_t> strides(dims);
  int64_t stride = int64_t(extent) + (once(5) ? below(9) : 0);
  for (size_t i = dims; i-- > 0;) {
    size_t dim = order[i];
    strides[dim] = stride;
    stride = stride * std::max<int64_t>(builder.program.rows[dim], 1) +
             (once(9) ? below(5) : 0);
  }
  if (isRead)
    for (int64_t &each : strides)
      if (once(5))
        each = 0;
  if (isRead && once(5))
    std::ranges::fill(strides, 0);
  return strides;
}

void Chance::addLoad() {
  uint64_t count = once(4) ? 1 : once(6) ? someColumns() : columns;
  int64_t stride = once(10) ? below(4) : 1;
  builder.load(anyDtype(), count,
               strides(1 + (count - 1) * uint64_t(stride), true), stride);
}

int64_t Chance::find(char letter, uint64_t count, KernelType *same) {
  std::vector<uint32_t> fitting;
  for (uint32_t i = 0; i < builder.values().size(); ++i) {
    const KernelValue &value = builder.values()[i];
    bool isType = letter == '*' ? value.type == *same
                                : letter == "fib"[size_t(value.type)];
    if (isType && (value.columns == count || value.columns == 1) &&
        kindOf(*builder.program.ops[i]) != KernelOpKind::sum_rows)
      fitting.push_back(i);
  }
  if (fitting.empty())
    return -1;
  // Late ones rather, so that programs are deep.
  auto size = int64_t(fitting.size());
  return fitting[size_t(std::max(below(size), below(size)))];
}

bool Chance::addElementwise(const KernelOpFacts &facts) {
  uint64_t count = once(8) ? 1 : once(6) ? someColumns() : columns;
  auto same = KernelType(below(3));
  std::vector<uint32_t> args;
  for (char letter : facts.arguments) {
    int64_t found = find(letter, count, &same);
    if (found < 0)
      return false;
    args.push_back(uint32_t(found));
  }
  builder.op(facts.kind, args);
  return true;
}

void Chance::addMove() {
  auto any = uint32_t(below(int64_t(builder.values().size())));
  KernelValue value = builder.values()[any];
  auto count = int64_t(value.columns);
  switch (below(4)) {
  case 0: {
    int64_t first = below(count), rest = count - first;
    if (once(2) && count % 2 == 0) // a half
      first = once(2) ? 0 : count / 2, rest = count / 2;
    else
      rest = 1 + below(rest);
    builder.op(KernelOpKind::slice, {any}, {first, rest});
    return;
  }
  case 1: {
    std::vector<uint32_t> args{any};
    uint64_t total = value.columns;
    for (int64_t i = below(3); i >= 0; --i) {
      auto other = uint32_t(below(int64_t(builder.values().size())));
      KernelValue with = builder.values()[other];
      if (with.type == value.type && total + with.columns <= 600) {
        args.push_back(other);
        total += with.columns;
      }
    }
    builder.op(KernelOpKind::cat, args);
    return;
  }
  case 2:
    builder.op(KernelOpKind::column, {}, {int64_t(columns)});
    return;
  default:
    if (count == 1)
      builder.op(KernelOpKind::repeat, {any}, {int64_t(columns)});
  }
}

void Chance::addOp() {
  if (once(8))
    return addMove();
  auto ops = getKernelOps();
  const KernelOpFacts &facts = ops[size_t(below(int64_t(ops.size())))];
  switch (facts.kind) {
  case KernelOpKind::load:
    return addLoad();
  case KernelOpKind::constant:
    builder.op(facts.kind, {}, {}, double(below(2000) - 1000) / 64);
    return;
  case KernelOpKind::integer:
    builder.op(facts.kind, {}, {below(300) - 20});
    return;
  case KernelOpKind::column:
  case KernelOpKind::slice:
  case KernelOpKind::cat:
  case KernelOpKind::repeat:
  case KernelOpKind::sum_rows:
    return;
  default:
    addElementwise(facts);
  }
}

void Chance::addStore() {
  auto size = int64_t(builder.values().size());
  auto op = uint32_t(std::max({below(size), below(size), below(size)}));
  KernelValue value = builder.values()[op];
  if (kindOf(*builder.program.ops[op]) == KernelOpKind::sum_rows)
    return;
  if (value.type == KernelType::f32 && once(4))
    return builder.storeSum(op, once(2) ? DType::bf16 : DType::f32);
  // Often as an operand that is read, so that it may lie over that.
  for (const auto &operand : builder.program.operands) {
    std::vector<int64_t> sorted = operand->row_strides;
    if (operand->written != -1 || operand->columns != value.columns ||
        !once(2) || std::ranges::count(sorted, 0))
      continue;
    plan::KernelOperandT like = *operand;
    builder.store(like.dtype, op, like.row_strides, like.column_stride);
    if (!checkKernel(builder.program))
      return;
    builder.program.operands.pop_back();
    break;
  }
  int64_t stride = once(8) ? 2 + below(2) : 1;
  DType dtype = dtypeOf(value.type);
  if (value.type == KernelType::f32 && once(6))
    dtype = once(2) ? DType::f8e4m3fn : DType::f8e5m2;
  builder.store(dtype, op,
                strides(1 + (value.columns - 1) * uint64_t(stride), false),
                stride);
}

plan::KernelProgramT Chance::make() {
  columns = once(5) ? 1 : someColumns();
  for (int64_t i = 1 + below(4); i > 0; --i)
    addLoad();
  // Some of elements alone, which are lines.
  bool isPlain = once(3);
  for (int64_t i = 2 + below(30); i > 0; --i)
    isPlain ? (void)addElementwise(getKernelOps()[size_t(
                  7 + below(int64_t(getKernelOps().size()) - 10))])
            : addOp();
  for (int64_t i = 1 + below(3); i > 0; --i)
    addStore();
  return std::move(builder.program);
}

plan::KernelProgramT fsdp::makeRandomProgram(std::mt19937_64 &random) {
  return Chance(random).make();
}
