//===- Evaluator.cpp - Code of values -------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/emit/Evaluator.h"
#include "kernels/CodeSize.h"
#include "kernels/Failure.h"

#include "kernels/emit/Elements.h"
#include "kernels/emit/Operations.h"
#include "plan/DType.h"

#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <limits>

using namespace fsdp;
using plan::DType;
using plan::KernelOperandT;
using plan::KernelOpT;

/// More take LLVM more than some seconds. A GPU's are of one number each.
static constexpr uint64_t kMaxInstructions = 30'000, kMaxOnGpu = 200'000;

Evaluator::Evaluator(Code &code, const Nest &nest,
                     std::vector<llvm::Value *> pointers, uint64_t alignment)
    : code(code), nest(nest), pointers(std::move(pointers)),
      alignment(alignment), rowPointers(this->pointers),
      uniforms(nest.values.size()) {
  makeScopes();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// What is written lies apart from all that it may not overwrite.
void Evaluator::makeScopes() {
  llvm::LLVMContext &context = code.function.getContext();
  llvm::MDBuilder metadata(context);
  llvm::MDNode *domain = metadata.createAnonymousAliasScopeDomain();
  std::vector<llvm::MDNode *> own;
  for (size_t i = 0; i < pointers.size(); ++i)
    own.push_back(metadata.createAnonymousAliasScope(domain));
  for (size_t i = 0; i < pointers.size(); ++i) {
    llvm::SmallVector<llvm::Metadata *> apart;
    for (size_t other = 0; other < pointers.size(); ++other)
      if (other != i && !mayOverwrite(nest.program, i, other) &&
          !mayOverwrite(nest.program, other, i))
        apart.push_back(own[other]);
    bool isRead = nest.program.operands[i]->written == -1;
    isConstant.push_back(isRead && apart.size() + 1 == pointers.size());
    scopes.push_back(llvm::MDNode::get(context, {own[i]}));
    others.push_back(llvm::MDNode::get(context, apart));
  }
}

void Evaluator::mark(llvm::Instruction *access, size_t operand) {
  access->setMetadata(llvm::LLVMContext::MD_alias_scope, scopes[operand]);
  access->setMetadata(llvm::LLVMContext::MD_noalias, others[operand]);
  // A GPU has a cache for what nobody writes.
  if (code.target.isGpu && isConstant[operand] &&
      llvm::isa<llvm::LoadInst>(access))
    access->setMetadata(llvm::LLVMContext::MD_invariant_load,
                        llvm::MDNode::get(code.function.getContext(), {}));
}

/// Of vectors of columns at multiples of their width.
uint64_t Evaluator::alignmentOf(size_t operand, int64_t shift,
                                const Lanes &lanes) const {
  uint64_t size = dtypeBytes(nest.program.operands[operand]->dtype);
  uint64_t aligned = std::min(alignment, size * lanes.width);
  auto fits = [&](int64_t elements) {
    return uint64_t(elements) * size % aligned == 0;
  };
  while (aligned > size &&
         !(fits(shift) && (nest.isLine || std::ranges::all_of(
                                              nest.rowStrides[operand], fits))))
    aligned /= 2;
  return std::max(aligned, size);
}

LaneMemory Evaluator::memoryOf(size_t operand, int64_t shift,
                               const Lanes &lanes) {
  return LaneMemory(
      code, memoryType(code, nest.program.operands[operand]->dtype),
      nest.strides[operand], alignmentOf(operand, shift, lanes),
      [this, operand](llvm::Instruction *access) { mark(access, operand); });
}

void Evaluator::beginRow(llvm::Value *row) {
  std::fill(uniforms.begin(), uniforms.end(), nullptr);
  rowPointers = pointers;
  if (!row)
    return;
  // The row's number along each dim.
  std::vector<llvm::Value *> numbers(nest.rows.size());
  for (size_t dim = nest.rows.size(); dim-- > 0;) {
    llvm::Value *size = code.integer(nest.rows[dim]);
    numbers[dim] = dim == 0 ? row : code.b.CreateURem(row, size);
    row = dim == 0 ? row : code.b.CreateUDiv(row, size);
  }
  for (size_t i = 0; i < pointers.size(); ++i) {
    llvm::Value *offset = nullptr;
    for (size_t dim = 0; dim < nest.rows.size(); ++dim) {
      if (nest.rowStrides[i][dim] == 0)
        continue;
      llvm::Value *part = code.b.CreateNSWMul(
          numbers[dim], code.integer(nest.rowStrides[i][dim]));
      offset = offset ? code.b.CreateNSWAdd(offset, part) : part;
    }
    if (offset)
      rowPointers[i] = code.b.CreateInBoundsGEP(
          memoryType(code, nest.program.operands[i]->dtype), pointers[i],
          offset);
  }
}

llvm::Value *Evaluator::addressOf(size_t operand, llvm::Value *column,
                                  int64_t shift) {
  int64_t stride = nest.strides[operand];
  if (stride == 0)
    return rowPointers[operand];
  llvm::Value *index = code.b.CreateNSWAdd(column, code.integer(shift));
  if (stride != 1)
    index = code.b.CreateNSWMul(index, code.integer(stride));
  return code.b.CreateInBoundsGEP(
      memoryType(code, nest.program.operands[operand]->dtype),
      rowPointers[operand], index);
}

llvm::Value *Evaluator::load(size_t operand, int64_t shift, Position &at) {
  llvm::Value *&loaded = at.loaded[{operand, shift}];
  if (!loaded)
    loaded = memoryOf(operand, shift, at.lanes)
                 .load(addressOf(operand, at.column, shift), at.lanes);
  return widen(code, nest.program.operands[operand]->dtype, loaded);
}

void Evaluator::store(llvm::ArrayRef<size_t> operands, Position &at) {
  std::vector<llvm::Value *> values;
  for (size_t operand : operands) {
    const KernelOperandT &to = *nest.program.operands[operand];
    auto op = uint32_t(to.written);
    llvm::Value *value = evaluate(op, 0, at);
    if (takesRowSum(nest.program, operand))
      value = code.add(load(operand, 0, at), value);
    spend(costOfStore(to.dtype));
    values.push_back(
        narrow(code, to.dtype, value, nest.isRounded(op, to.dtype)));
  }
  auto storeAll = [&] {
    for (size_t i = 0; i < operands.size(); ++i)
      memoryOf(operands[i], 0, at.lanes)
          .store(values[i], addressOf(operands[i], at.column, 0), at.lanes);
  };
  if (operands.empty())
    return;
  at.isThere ? code.when(at.isThere, storeAll) : storeAll();
}

void Evaluator::fetchNextRow(uint64_t columns, llvm::Value *first,
                             unsigned count) {
  constexpr uint64_t kLine = 64, kMostBytes = 256 << 10;
  if (nest.rows.size() != 1)
    return;
  for (size_t i = 0; i < pointers.size(); ++i) {
    const KernelOperandT &from = *nest.program.operands[i];
    uint64_t size = dtypeBytes(from.dtype);
    int64_t stride = nest.rowStrides[i][0];
    if (from.written != -1 || from.columns != columns || stride == 0 ||
        nest.strides[i] != 1 || columns * size > kMostBytes)
      continue;
    // Beyond the last row nothing happens.
    for (uint64_t at = 0; at < count * size; at += kLine) {
      llvm::Value *index =
          code.b.CreateAdd(first, code.integer(stride + int64_t(at / size)));
      llvm::Value *address =
          code.b.CreateGEP(memoryType(code, from.dtype), rowPointers[i], index);
      code.b.CreateIntrinsic(llvm::Intrinsic::prefetch, {address->getType()},
                             {address, code.b.getInt32(0), code.b.getInt32(2),
                              code.b.getInt32(1)});
    }
  }
}

void Evaluator::storeUniform(llvm::ArrayRef<size_t> operands,
                             llvm::Value *isThere) {
  Position at{code.integer(0), {}, 0, isThere};
  store(operands, at);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void Evaluator::spend(unsigned instructions) {
  bool isGpu = code.target.isGpu;
  spent += uint64_t(instructions) * (isGpu ? code.target.lanes : 1);
  if (spent > (isGpu ? kMaxOnGpu : kMaxInstructions))
    throw EmitFailure("is longer than what there is code for");
}

llvm::Value *Evaluator::columnsAt(int64_t shift, const Position &at,
                                  llvm::Type *type) {
  llvm::Value *first = code.b.CreateTrunc(
      code.b.CreateAdd(at.column, code.integer(shift - int64_t(at.lanes.from))),
      type);
  if (at.lanes.width == 1)
    return first;
  llvm::SmallVector<llvm::Constant *> steps;
  for (unsigned i = 0; i < at.lanes.width; ++i)
    steps.push_back(llvm::ConstantInt::get(type, i));
  return code.b.CreateAdd(code.splat(first, at.lanes.width),
                          llvm::ConstantVector::get(steps));
}

/// A comparison of the columns' numbers with one that the row has: in 32 bits,
/// of which vectors hold twice as many. Null: it is another operation.
llvm::Value *Evaluator::compareColumns(const KernelOpT &op, int64_t shift,
                                       const Position &at) {
  if (kindOf(op) != KernelOpKind::equal_integers &&
      kindOf(op) != KernelOpKind::less_integers &&
      kindOf(op) != KernelOpKind::less_equal_integers)
    return nullptr;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  llvm::Value *in[2];
  for (size_t i = 0; i < 2; ++i) {
    const KernelOpT &argument = *nest.program.ops[op.args[i]];
    if (nest.isUniform[op.args[i]] && !nest.isUniform[op.args[1 - i]]) {
      // What is no column's number stays below or above them all.
      llvm::Value *number = code.b.CreateBinaryIntrinsic(
          llvm::Intrinsic::smax, uniforms[op.args[i]], code.integer(-1));
      number = code.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, number,
                                            code.integer(kMost));
      in[i] = code.splat(code.b.CreateTrunc(number, code.b.getInt32Ty()),
                         at.lanes.width);
    } else if (kindOf(argument) == KernelOpKind::column &&
               !nest.isUniform[op.args[i]] && argument.integers[0] < kMost) {
      in[i] = columnsAt(shift, at, code.b.getInt32Ty());
    } else {
      return nullptr;
    }
  }
  bool areBoth = !nest.isUniform[op.args[0]] && !nest.isUniform[op.args[1]];
  return areBoth ? nullptr : compute(code, op, in);
}

/// All columns of `at` come from one of the arguments.
llvm::Value *Evaluator::evaluateCat(const KernelOpT &op, int64_t shift,
                                    Position &at) {
  int64_t column = int64_t(at.within) + shift, before = 0;
  size_t i = 0;
  for (; i + 1 < op.args.size(); ++i) {
    auto columns = int64_t(nest.values[op.args[i]].columns);
    if (column < before + columns)
      break;
    before += columns;
  }
  return evaluate(op.args[i], shift - before, at);
}

llvm::Value *Evaluator::evaluate(uint32_t op, int64_t shift, Position &at) {
  if (nest.isUniform[op])
    return code.splat(uniforms[op], at.lanes.width);
  auto known = at.known.find({op, shift});
  if (known != at.known.end())
    return known->second;
  llvm::Value *value = evaluateNew(op, shift, at);
  at.known[{op, shift}] = value;
  return value;
}

llvm::Value *Evaluator::evaluateNew(uint32_t op, int64_t shift, Position &at) {
  const KernelOpT &of = *nest.program.ops[op];
  spend(costOf(nest.program, of));
  switch (kindOf(of)) {
  case KernelOpKind::load:
    return load(size_t(of.integers[0]), shift, at);
  case KernelOpKind::column:
    return columnsAt(shift, at, code.b.getInt64Ty());
  case KernelOpKind::slice:
    return evaluate(of.args[0], shift + of.integers[0], at);
  case KernelOpKind::cat:
    return evaluateCat(of, shift, at);
  case KernelOpKind::repeat:
  case KernelOpKind::sum_rows:
  case KernelOpKind::max_columns: // of one column
    return evaluate(of.args[0], shift, at);
  case KernelOpKind::sum_columns: {
    llvm::Value *only = evaluate(of.args[0], shift, at);
    return code.add(code.number(0, only), only);
  }
  default:
    break;
  }
  if (llvm::Value *compared = compareColumns(of, shift, at))
    return compared;
  llvm::SmallVector<llvm::Value *, 4> in;
  for (uint32_t argument : of.args)
    in.push_back(evaluate(argument, shift, at));
  return compute(code, of, in);
}

/// Of an operation whose value has one column.
llvm::Value *Evaluator::computeScalar(uint32_t op) {
  const KernelOpT &of = *nest.program.ops[op];
  Position only{code.integer(0), {}, 0};
  switch (kindOf(of)) {
  case KernelOpKind::column:
    return code.integer(0);
  case KernelOpKind::slice: {
    auto first = uint64_t(of.integers[0]);
    Position at{code.integer(of.integers[0]), {}, first};
    return evaluate(of.args[0], 0, at);
  }
  default:
    return evaluateNew(op, 0, only);
  }
}

void Evaluator::computeUniform(unsigned level) {
  for (uint32_t op = 0; op < uniforms.size(); ++op)
    if (nest.isUniform[op] && nest.isLive[op] && nest.levels[op] == level &&
        !uniforms[op])
      uniforms[op] = computeScalar(op);
}
