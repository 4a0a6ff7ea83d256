//===- Nest.cpp - Loops over a program's rows and columns -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/Nest.h"

#include "kernels/Failure.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

using namespace fsdp;
using plan::DType;
using plan::KernelOperandT;
using plan::KernelOpT;

static constexpr size_t kMaxSegments = 256;

static bool isReduction(KernelOpKind kind) {
  return kind == KernelOpKind::sum_columns || kind == KernelOpKind::max_columns;
}

static bool isWritten(const KernelOperandT &operand) {
  return operand.written != -1;
}

Nest::Nest(const plan::KernelProgramT &program)
    : program(program), values(valuesOf(program)) {
  collapse();
  isLine = findLine();
  findLevels();
  findLive();
  findLoops();
}

void Nest::collapse() {
  rowStrides.resize(program.operands.size());
  strides.reserve(program.operands.size());
  for (const auto &operand : program.operands)
    strides.push_back(operand->columns == 1 ? 0 : operand->column_stride);
  for (size_t dim = 0; dim < program.rows.size(); ++dim) {
    int64_t size = program.rows[dim];
    if (size == 1)
      continue;
    bool isOne = !rows.empty();
    for (size_t i = 0; i < program.operands.size() && isOne; ++i) {
      int64_t stride = program.operands[i]->row_strides[dim];
      // Compared without a product that might be too large.
      isOne = stride == 0 ? rowStrides[i].back() == 0
                          : rowStrides[i].back() % stride == 0 &&
                                rowStrides[i].back() / stride == size;
    }
    if (isOne)
      rows.back() *= size;
    else
      rows.push_back(size);
    for (size_t i = 0; i < program.operands.size(); ++i) {
      int64_t stride = program.operands[i]->row_strides[dim];
      if (isOne)
        rowStrides[i].back() = stride;
      else
        rowStrides[i].push_back(stride);
    }
  }
}

/// Whether elements can be computed one by one, along columns, along rows of
/// one column, or along both.
bool Nest::findLine() {
  if (isFlat(program))
    return true;
  if (rows.size() > 1)
    return false;
  auto has = [&](auto... kinds) {
    return std::ranges::any_of(program.ops, [&](const auto &op) {
      return ((kindOf(*op) == kinds) || ...);
    });
  };
  auto rowStride = [&](size_t i) {
    return rows.empty() ? 0 : rowStrides[i][0];
  };
  auto columns = int64_t(fsdp::columnsOf(program));
  using enum KernelOpKind;
  if (has(sum_rows))
    return false;
  std::vector<int64_t> found;
  if (columns > 1) {
    if (has(column, slice, cat, repeat, sum_columns, max_columns))
      return false;
    for (size_t i = 0; i < program.operands.size(); ++i) {
      const KernelOperandT &operand = *program.operands[i];
      bool isAll = int64_t(operand.columns) == columns &&
                   operand.column_stride == 1 &&
                   (rows.empty() || rowStride(i) == columns);
      bool isOne =
          operand.columns == 1 && rowStride(i) == 0 && !isWritten(operand);
      if (!isAll && !isOne)
        return false;
      found.push_back(isAll);
    }
  } else {
    for (size_t i = 0; i < program.operands.size(); ++i)
      found.push_back(rowStride(i));
  }
  strides = found;
  lineColumns = columns;
  return true;
}

void Nest::findLevels() {
  levels.resize(values.size());
  isUniform.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const KernelOpT &op = *program.ops[i];
    bool isSame = true;
    for (uint32_t argument : op.args) {
      levels[i] = std::max(levels[i], levels[argument]);
      isSame = isSame && isUniform[argument];
    }
    if (isReduction(kindOf(op)) && !isLine)
      ++levels[i];
    if (kindOf(op) == KernelOpKind::load)
      isSame = strides[size_t(op.integers[0])] == 0;
    isUniform[i] = isLine ? isSame : values[i].columns == 1;
  }
}

void Nest::findLive() {
  isLive.resize(values.size());
  for (const auto &operand : program.operands)
    if (isWritten(*operand))
      isLive[size_t(operand->written)] = true;
  for (size_t i = values.size(); i-- > 0;)
    if (isLive[i])
      for (uint32_t argument : program.ops[i]->args)
        isLive[argument] = true;
  for (size_t i = 0; i < values.size(); ++i)
    if (isLive[i])
      lastLevel = std::max(lastLevel, levels[i]);
}

ColumnLoop &Nest::loopOf(unsigned level, uint64_t columns) {
  auto key = [](const ColumnLoop &loop) {
    return std::pair(loop.level, loop.columns);
  };
  auto at = std::ranges::lower_bound(loops, std::pair(level, columns), {}, key);
  if (at == loops.end() || key(*at) != std::pair(level, columns))
    at = loops.insert(at, ColumnLoop{level, columns, {}, {}});
  return *at;
}

void Nest::findLoops() {
  // Of so many columns: the last loop, in which all is stored, behind the last
  // read of what it may lie over.
  std::map<uint64_t, unsigned> last;
  for (size_t i = 0; i < values.size() && !isLine; ++i) {
    const KernelOpT &op = *program.ops[i];
    if (!isLive[i] || !isReduction(kindOf(op)) || isUniform[op.args[0]])
      continue;
    unsigned level = levels[op.args[0]];
    uint64_t columns = values[op.args[0]].columns;
    loopOf(level, columns).reductions.push_back(uint32_t(i));
    last[columns] = std::max(last[columns], level);
  }
  for (const auto &operand : program.operands)
    if (isWritten(*operand)) {
      unsigned &level = last[operand->columns];
      level = std::max(level, levels[size_t(operand->written)]);
    }
  for (size_t i = 0; i < program.operands.size(); ++i) {
    const KernelOperandT &operand = *program.operands[i];
    if (!isWritten(operand))
      continue;
    if (isLine || operand.columns == 1)
      stores.push_back(i);
    else
      loopOf(last[operand.columns], operand.columns).stores.push_back(i);
  }
}

/// Parts of the arguments that `window` sees.
static std::vector<Window> argumentsOf(const Nest &nest, const Window &window) {
  const KernelOpT &op = *nest.program.ops[window.op];
  std::vector<Window> parts;
  int64_t before = 0;
  for (uint32_t argument : op.args) {
    Window part{argument, window.shift, window.from, window.to};
    if (kindOf(op) == KernelOpKind::slice) {
      part.shift += op.integers[0];
    } else if (kindOf(op) == KernelOpKind::cat) {
      auto columns = int64_t(nest.values[argument].columns);
      part.shift -= before;
      part.from = std::max(part.from, before - window.shift);
      part.to = std::min(part.to, before + columns - window.shift);
      before += columns;
    }
    if (part.from < part.to)
      parts.push_back(part);
  }
  return parts;
}

Pieces Nest::piecesOf(const ColumnLoop &loop) const {
  std::set<uint64_t> borders{0, loop.columns};
  std::vector<Window> open;
  auto columns = int64_t(loop.columns);
  for (uint32_t reduction : loop.reductions)
    open.push_back({program.ops[reduction]->args[0], 0, 0, columns});
  for (size_t operand : loop.stores)
    open.push_back(
        {uint32_t(program.operands[operand]->written), 0, 0, columns});
  std::set<Window> seen(open.begin(), open.end());
  while (!open.empty()) {
    Window window = open.back();
    open.pop_back();
    for (const Window &part : argumentsOf(*this, window)) {
      borders.insert({uint64_t(part.from), uint64_t(part.to)});
      if (!isUniform[part.op] && seen.insert(part).second)
        open.push_back(part);
    }
    if (borders.size() > kMaxSegments || seen.size() > 64 * kMaxKernelOps)
      throw EmitFailure("puts columns together of more pieces than there is "
                        "code for");
  }
  return {{borders.begin(), borders.end()}, {seen.begin(), seen.end()}};
}

bool Nest::isRounded(uint32_t op, DType dtype) const {
  // A NaN that was loaded may be any, and what is computed has f32's digits.
  const KernelOpT *at = program.ops[op].get();
  while (kindOf(*at) == KernelOpKind::slice ||
         kindOf(*at) == KernelOpKind::repeat)
    at = program.ops[at->args[0]].get();
  return (dtype == DType::bf16 && kindOf(*at) == KernelOpKind::round_bf16) ||
         (dtype == DType::f16 && kindOf(*at) == KernelOpKind::round_f16);
}
