//===- Kernels.cpp - Programs of kernels ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Kernels.h"

#include "plan/DType.h"
#include "plan/ProgramText.h"
#include "plan/Shape.h"

#include <algorithm>
#include <cmath>

using namespace fsdp;
using plan::DType;
using plan::KernelOperandT;
using plan::KernelOpT;
using plan::KernelProgramT;

static constexpr KernelOpFacts kOps[] = {
#define FSDP_KERNEL_OP(name, arguments, result, integers)                      \
  {KernelOpKind::name, #name, arguments, result, integers},
#include "plan/KernelOps.def"
};

std::span<const KernelOpFacts> fsdp::getKernelOps() { return kOps; }

const KernelOpFacts &fsdp::getFacts(KernelOpKind kind) {
  return kOps[static_cast<size_t>(kind)];
}

static size_t countIntegers(const KernelOpFacts &facts) {
  return facts.integers.empty()
             ? 0
             : 1 + static_cast<size_t>(std::ranges::count(facts.integers, ' '));
}

static bool isReduction(KernelOpKind kind) {
  return kind == KernelOpKind::sum_columns || kind == KernelOpKind::max_columns;
}

/// Of numbers that kernels write, and do not read.
static bool isFloat8(DType dtype) {
  return dtype == DType::f8e4m3fn || dtype == DType::f8e5m2;
}

/// What an element is in a kernel; none: kernels know no such.
static std::optional<KernelType> typeOf(DType dtype) {
  switch (dtype) {
  case DType::f32:
  case DType::bf16:
  case DType::f16:
  case DType::f8e4m3fn:
  case DType::f8e5m2:
    return KernelType::f32;
  case DType::i64:
  case DType::i32:
  case DType::i16:
  case DType::i8:
  case DType::u8:
    return KernelType::i64;
  case DType::bool_:
    return KernelType::boolean;
  default:
    return std::nullopt;
  }
}

static bool fits(char letter, KernelType type) {
  return letter == '*' || letter == "fib"[static_cast<size_t>(type)];
}

//===----------------------------------------------------------------------===//
// Sound programs
//===----------------------------------------------------------------------===//

namespace {
/// Reads a program from the front; stops at what does not hold.
class KernelCheck {
public:
  explicit KernelCheck(const KernelProgramT &program) : program(program) {}

  std::optional<std::string> run() {
    if (program.ops.size() > kMaxKernelOps ||
        program.operands.size() > kMaxKernelOperands)
      return "has more operations or operands than kernels may";
    if (!checkedElements(program.rows))
      return "has rows of no valid number";
    for (size_t i = 0; i < program.operands.size() && problem.empty(); ++i)
      checkOperand(i);
    for (size_t i = 0; i < program.ops.size() && problem.empty(); ++i)
      checkOp(i);
    for (size_t i = 0; i < program.operands.size() && problem.empty(); ++i)
      if (program.operands[i]->written != -1)
        checkWritten(i);
    return problem.empty() ? std::nullopt : std::optional(problem);
  }

  std::vector<KernelValue> values;

private:
  void fail(const std::string &what) {
    if (problem.empty())
      problem = what;
  }
  void checkOperand(size_t index);
  void checkOp(size_t index);
  void checkWritten(size_t index);
  void checkApart(size_t index);
  std::optional<KernelValue> infer(const KernelOpT &op,
                                   const std::string &name);

  const KernelProgramT &program;
  std::string problem;
};
} // namespace

void KernelCheck::checkOperand(size_t index) {
  const KernelOperandT &operand = *program.operands[index];
  std::string name = "operand " + std::to_string(index);
  if (!typeOf(operand.dtype) ||
      (isFloat8(operand.dtype) && operand.written == -1))
    return fail("has elements in " + name + " that kernels do not know");
  if (operand.row_strides.size() != program.rows.size())
    return fail("has not one stride for each dim of rows in " + name);
  std::vector<int64_t> shape = program.rows, strides = operand.row_strides;
  if (operand.columns < 1 || operand.columns >= uint64_t{1} << 47)
    return fail("has columns of no valid number in " + name);
  shape.push_back(static_cast<int64_t>(operand.columns));
  strides.push_back(operand.column_stride);
  if (!checkedExtent(shape, strides, dtypeBytes(operand.dtype)) ||
      !checkedElements(shape))
    fail("has no valid extent in " + name);
}

/// The type and columns of what `op` gives, whose arguments were looked at.
std::optional<KernelValue> KernelCheck::infer(const KernelOpT &op,
                                              const std::string &name) {
  KernelOpKind kind = kindOf(op);
  const KernelOpFacts &facts = getFacts(kind);
  std::optional<KernelType> any;
  uint64_t columns = 1;
  bool isSequence = facts.arguments.ends_with('+');
  for (size_t i = 0; i < op.args.size(); ++i) {
    const KernelValue &argument = values[op.args[i]];
    char letter = facts.arguments[isSequence ? 0 : i];
    if (!fits(letter, argument.type) ||
        (letter == '*' && any.value_or(argument.type) != argument.type)) {
      fail("has an argument of another type in " + name);
      return std::nullopt;
    }
    if (letter == '*')
      any = argument.type;
    if (!isSequence && columns != 1 && argument.columns != 1 &&
        columns != argument.columns) {
      fail("has arguments of different columns in " + name);
      return std::nullopt;
    }
    columns = isSequence && i > 0 ? columns + argument.columns
                                  : std::max(columns, argument.columns);
  }
  if (columns >= uint64_t{1} << 47) {
    fail("has columns of no valid number in " + name);
    return std::nullopt;
  }
  KernelType type = facts.result == 'f'   ? KernelType::f32
                    : facts.result == 'i' ? KernelType::i64
                    : facts.result == 'b' ? KernelType::boolean
                                          : any.value_or(KernelType::f32);
  return KernelValue{type, isReduction(kind) ? 1 : columns};
}

void KernelCheck::checkOp(size_t index) {
  const KernelOpT &op = *program.ops[index];
  std::string name = "operation " + std::to_string(index);
  if (op.kind >= std::size(kOps))
    return fail("has an unknown " + name);
  KernelOpKind kind = kindOf(op);
  const KernelOpFacts &facts = getFacts(kind);
  bool isSequence = facts.arguments.ends_with('+');
  if ((isSequence ? op.args.empty()
                  : op.args.size() != facts.arguments.size()) ||
      op.integers.size() != countIntegers(facts))
    return fail("has another number of arguments in " + name);
  for (uint32_t argument : op.args) {
    if (argument >= index)
      return fail("uses what is not there yet in " + name);
    if (kindOf(*program.ops[argument]) == KernelOpKind::sum_rows)
      return fail("uses a sum over rows in " + name);
  }
  std::optional<KernelValue> value = infer(op, name);
  if (!value)
    return;
  auto isCount = [](int64_t count) {
    return count >= 1 && count < int64_t{1} << 47;
  };
  switch (kind) {
  case KernelOpKind::load: {
    auto number = static_cast<uint64_t>(op.integers[0]);
    if (number >= program.operands.size() ||
        program.operands[number]->written != -1)
      return fail("reads what is no operand to read in " + name);
    value = {*typeOf(program.operands[number]->dtype),
             program.operands[number]->columns};
    break;
  }
  case KernelOpKind::column:
  case KernelOpKind::repeat:
    if (!isCount(op.integers.back()) || value->columns != 1)
      return fail("has columns of no valid number in " + name);
    value->columns = static_cast<uint64_t>(op.integers.back());
    break;
  case KernelOpKind::slice: {
    int64_t first = op.integers[0], columns = op.integers[1];
    if (first < 0 || first >= int64_t{1} << 47 || !isCount(columns) ||
        static_cast<uint64_t>(first) + static_cast<uint64_t>(columns) >
            value->columns)
      return fail("takes columns that are not there in " + name);
    value->columns = static_cast<uint64_t>(columns);
    break;
  }
  default:
    break;
  }
  values.push_back(*value);
}

/// No two elements of what is written lie over each other.
void KernelCheck::checkApart(size_t index) {
  const KernelOperandT &operand = *program.operands[index];
  std::vector<std::pair<int64_t, int64_t>> dims{
      {operand.column_stride, static_cast<int64_t>(operand.columns)}};
  for (size_t i = 0; i < program.rows.size(); ++i)
    dims.emplace_back(operand.row_strides[i], program.rows[i]);
  std::erase_if(dims, [](const auto &dim) { return dim.second <= 1; });
  std::ranges::sort(dims);
  int64_t end = 1;
  for (auto [stride, size] : dims) {
    if (stride < end)
      return fail("writes elements twice in operand " + std::to_string(index));
    end += stride * (size - 1);
  }
}

void KernelCheck::checkWritten(size_t index) {
  const KernelOperandT &operand = *program.operands[index];
  std::string name = "operand " + std::to_string(index);
  if (operand.written < 0 ||
      static_cast<size_t>(operand.written) >= program.ops.size())
    return fail("writes what no operation gives to " + name);
  const KernelValue &value = values[static_cast<size_t>(operand.written)];
  if (value.type != *typeOf(operand.dtype) || value.columns != operand.columns)
    return fail("writes what is of another type or size to " + name);
  if (!takesRowSum(program, index))
    return checkApart(index);
  if (isFloat8(operand.dtype))
    fail("writes a sum over rows in eight bits to " + name);
  // One row for all, side by side.
  bool isRow = std::ranges::all_of(operand.row_strides,
                                   [](int64_t stride) { return stride == 0; });
  if (!isRow || (operand.column_stride != 1 && operand.columns > 1))
    fail("spreads a sum over rows in " + name);
}

std::optional<std::string> fsdp::checkKernel(const KernelProgramT &program) {
  return KernelCheck(program).run();
}

//===----------------------------------------------------------------------===//
// What programs are like
//===----------------------------------------------------------------------===//

std::vector<KernelValue> fsdp::valuesOf(const KernelProgramT &program) {
  KernelCheck check(program);
  check.run();
  return std::move(check.values);
}

std::vector<size_t> fsdp::operandsOf(const KernelProgramT &program,
                                     bool written) {
  std::vector<size_t> numbers;
  for (size_t i = 0; i < program.operands.size(); ++i)
    if ((program.operands[i]->written != -1) == written)
      numbers.push_back(i);
  return numbers;
}

int64_t fsdp::rowsOf(const KernelProgramT &program) {
  int64_t rows = 1;
  for (int64_t size : program.rows)
    rows *= size;
  return rows;
}

uint64_t fsdp::columnsOf(const KernelProgramT &program) {
  uint64_t columns = 1;
  for (const auto &operand : program.operands)
    columns = std::max(columns, operand->columns);
  for (const KernelValue &value : valuesOf(program))
    columns = std::max(columns, value.columns);
  return columns;
}

bool fsdp::isFlat(const KernelProgramT &program) {
  if (rowsOf(program) != 1)
    return false;
  // All columns are those of the operands: what has one of them is the same for
  // all and not written, or there is no other.
  uint64_t columns = columnsOf(program);
  auto isPart = [&](uint64_t count) { return count != 1 && count != columns; };
  for (const auto &operand : program.operands)
    if (isPart(operand->columns) ||
        (operand->written != -1 && operand->columns != columns))
      return false;
  return std::ranges::none_of(program.ops, [](const auto &op) {
    switch (kindOf(*op)) {
    case KernelOpKind::column:
    case KernelOpKind::slice:
    case KernelOpKind::cat:
    case KernelOpKind::repeat:
    case KernelOpKind::sum_columns:
    case KernelOpKind::max_columns:
    case KernelOpKind::sum_rows:
      return true;
    default:
      return false;
    }
  });
}

bool fsdp::takesRowSum(const KernelProgramT &program, size_t operand) {
  int32_t written = program.operands[operand]->written;
  return written != -1 && kindOf(*program.ops[static_cast<size_t>(written)]) ==
                              KernelOpKind::sum_rows;
}

/// By operation: whether some element of it is read for another column.
static std::vector<bool> findMoved(const KernelProgramT &program) {
  std::vector<bool> moved(program.ops.size());
  for (size_t i = program.ops.size(); i-- > 0;) {
    const KernelOpT &op = *program.ops[i];
    bool moves =
        kindOf(op) == KernelOpKind::slice || kindOf(op) == KernelOpKind::cat;
    for (uint32_t argument : op.args)
      if (moves || moved[i])
        moved[argument] = true;
  }
  return moved;
}

bool fsdp::mayOverwrite(const KernelProgramT &program, size_t written,
                        size_t read) {
  const KernelOperandT &to = *program.operands[written];
  const KernelOperandT &from = *program.operands[read];
  if (to.written == -1 || from.written != -1 || takesRowSum(program, written))
    return false;
  if (to.dtype != from.dtype || to.row_strides != from.row_strides ||
      to.columns != from.columns ||
      (to.columns > 1 && to.column_stride != from.column_stride))
    return false;
  std::vector<bool> moved = findMoved(program);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const KernelOpT &op = *program.ops[i];
    if (kindOf(op) == KernelOpKind::load &&
        op.integers[0] == static_cast<int64_t>(read) && moved[i])
      return false;
  }
  return true;
}

uint64_t fsdp::extentOf(const KernelProgramT &program, size_t operand) {
  const KernelOperandT &of = *program.operands[operand];
  uint64_t extent =
      1 + (of.columns - 1) * static_cast<uint64_t>(of.column_stride);
  // Of no rows the sum is there, too.
  if (takesRowSum(program, operand))
    return extent;
  for (size_t i = 0; i < program.rows.size(); ++i) {
    if (program.rows[i] == 0)
      return 0;
    extent += static_cast<uint64_t>(program.rows[i] - 1) *
              static_cast<uint64_t>(of.row_strides[i]);
  }
  return extent;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string describe(const KernelProgramT &program, size_t index) {
  const KernelOperandT &operand = *program.operands[index];
  std::string text = "operand " + std::to_string(index) + ": " +
                     std::string(dtypeName(operand.dtype)) + " strides " +
                     toString(operand.row_strides);
  if (operand.columns > 1)
    text += ", " + std::to_string(operand.columns) + " columns";
  if (operand.columns > 1 && operand.column_stride != 1)
    text += " of stride " + std::to_string(operand.column_stride);
  if (operand.written != -1)
    text += " = %" + std::to_string(operand.written);
  return text;
}

std::string fsdp::toText(const KernelProgramT &program) {
  std::string text = program.name.empty() ? "" : "  " + program.name + "\n";
  text += "  rows " + toString(program.rows) + "\n";
  for (size_t i = 0; i < program.operands.size(); ++i)
    text += "  " + describe(program, i) + "\n";
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const KernelOpT &op = *program.ops[i];
    text += "  %" + std::to_string(i) + " = " +
            std::string(getFacts(kindOf(op)).name);
    if (kindOf(op) == KernelOpKind::constant)
      text += " " + formatNumber(op.number);
    for (int64_t integer : op.integers)
      text += " " + std::to_string(integer);
    if (!op.args.empty())
      text += " " + join(op.args, [](uint32_t argument) {
                return "%" + std::to_string(argument);
              });
    text += "\n";
  }
  return text;
}
