//===- CpuKernel.cpp - A program's function for a processor ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A row's columns are passed over once for each level of reductions; what is
// needed in two passes is computed twice, from operands that lie in the cache.
//
//===----------------------------------------------------------------------===//

#include "kernels/emit/CpuKernel.h"
#include "kernels/CodeSize.h"
#include "kernels/Failure.h"

#include "kernels/emit/Evaluator.h"
#include "kernels/emit/Operations.h"
#include "kernels/emit/Reductions.h"

#include <llvm/IR/Module.h>

#include <algorithm>
#include <optional>

using namespace fsdp;

/// Longer loops are not unrolled.
static constexpr unsigned kMaxUnrolled = 6000;

static llvm::Function *declare(llvm::Module &module, const EmitTarget &target) {
  llvm::LLVMContext &context = module.getContext();
  llvm::Type *address = llvm::PointerType::get(context, 0);
  llvm::Type *number = llvm::Type::getInt64Ty(context);
  auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                       {address, number, number}, false);
  auto *function = llvm::Function::Create(type, llvm::Function::ExternalLinkage,
                                          "kernel", module);
  std::string bits = std::to_string(32 * target.lanes);
  function->addFnAttr("target-cpu", llvm::StringRef(target.processor));
  function->addFnAttr("prefer-vector-width", bits);
  function->addFnAttr("min-legal-vector-width", bits);
  function->addFnAttr("no-builtins");
  function->addFnAttr(llvm::Attribute::NoUnwind);
  return function;
}

namespace {

class CpuKernel {
public:
  /// `isShort`: no loop is unrolled.
  CpuKernel(llvm::Function &function, const EmitTarget &target,
            const Nest &nest, bool isShort)
      : code(function, target), nest(nest), isShort(isShort),
        begin(function.getArg(1)), end(function.getArg(2)),
        values(code, nest, loadPointers(), 1) {}

  void emit();

private:
  std::vector<llvm::Value *> loadPointers();
  void emitLine();
  void emitLineTail(llvm::Value *from, llvm::Value *to);
  void emitRows();
  void emitLoop(const ColumnLoop &loop);
  void emitSegment(const ColumnLoop &loop, uint64_t from, uint64_t to);
  /// Vectors one behind the other.
  void emitBlock(const ColumnLoop &loop, llvm::Value *first, unsigned lane,
                 unsigned vectors, uint64_t within);
  void emitVector(const ColumnLoop &loop, llvm::Value *column, unsigned lane,
                  Lanes lanes, uint64_t within);
  bool isLong(unsigned vectors) const;

  Code code;
  const Nest &nest;
  bool isShort;
  llvm::Value *begin, *end;
  Evaluator values;
  std::map<uint32_t, Reduction> reductions; ///< by operation
};

} // namespace

std::vector<llvm::Value *> CpuKernel::loadPointers() {
  std::vector<llvm::Value *> pointers;
  llvm::Type *address = code.b.getPtrTy();
  for (size_t i = 0; i < nest.program.operands.size(); ++i)
    pointers.push_back(code.b.CreateLoad(
        address, code.b.CreateConstInBoundsGEP1_64(
                     address, code.function.getArg(0), uint64_t(i))));
  return pointers;
}

/// Whether so many copies of what is computed for a vector are too many.
bool CpuKernel::isLong(unsigned vectors) const {
  unsigned cost = 0;
  for (size_t i = 0; i < nest.values.size(); ++i)
    if (nest.isLive[i] && !nest.isUniform[i])
      cost += costOf(nest.program, *nest.program.ops[i]);
  return isShort || cost * vectors > kMaxUnrolled;
}

void CpuKernel::emit() {
  if (std::ranges::find(nest.rows, 0) == nest.rows.end())
    nest.isLine ? emitLine() : emitRows();
  code.b.CreateRetVoid();
}

//===----------------------------------------------------------------------===//
// Elements, each for itself
//===----------------------------------------------------------------------===//

void CpuKernel::emitLine() {
  values.beginRow(nullptr);
  values.computeUniform(0);
  unsigned lanes = code.target.lanes;
  unsigned vectors = isLong(8) ? 1 : std::max(2u, 32 / lanes);
  llvm::Value *scale = code.integer(nest.lineColumns);
  llvm::Value *from = code.b.CreateNSWMul(begin, scale);
  llvm::Value *to = code.b.CreateNSWMul(end, scale);
  auto pass = [&](unsigned count) {
    int64_t step = int64_t(count) * lanes;
    llvm::Value *whole =
        code.b.CreateAdd(from, code.b.CreateAnd(code.b.CreateSub(to, from),
                                                code.integer(-step)));
    code.loop(from, whole, step, [&](llvm::Value *i) {
      for (unsigned vector = 0; vector < count; ++vector) {
        Position at{code.b.CreateAdd(i, code.integer(vector * lanes)),
                    {lanes, 0, lanes},
                    0};
        values.store(nest.stores, at);
      }
    });
    from = whole;
  };
  if (vectors > 1)
    pass(vectors);
  pass(1);
  emitLineTail(from, to);
}

/// What is less than a vector.
void CpuKernel::emitLineTail(llvm::Value *from, llvm::Value *to) {
  unsigned lanes = code.target.lanes;
  bool takesMask = std::ranges::all_of(nest.strides, [&](int64_t stride) {
    return stride == 0 || LaneMemory::takesMask(code, stride);
  });
  for (size_t operand : nest.stores)
    takesMask = takesMask && LaneMemory::takesMask(code, nest.strides[operand]);
  if (!takesMask) {
    code.loop(from, to, 1, [&](llvm::Value *i) {
      Position at{i, {}, 0};
      values.store(nest.stores, at);
    });
    return;
  }
  code.when(code.b.CreateICmpSLT(from, to), [&] {
    llvm::SmallVector<llvm::Constant *> numbers;
    for (unsigned i = 0; i < lanes; ++i)
      numbers.push_back(code.b.getInt32(i));
    llvm::Value *left =
        code.b.CreateTrunc(code.b.CreateSub(to, from), code.b.getInt32Ty());
    llvm::Value *mask = code.b.CreateICmpULT(llvm::ConstantVector::get(numbers),
                                             code.splat(left, lanes));
    Position at{from, {lanes, 0, lanes, mask}, 0};
    values.store(nest.stores, at);
  });
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void CpuKernel::emitRows() {
  bool inMemory = isLong(kKernelLanes / code.target.lanes);
  for (const ColumnLoop &loop : nest.loops)
    for (uint32_t op : loop.reductions)
      reductions.try_emplace(op, code, kindOf(*nest.program.ops[op]), inMemory);
  code.loop(begin, end, 1, [&](llvm::Value *row) {
    values.beginRow(nest.rows.empty() ? nullptr : row);
    nest.visitLoops([&](unsigned level) { values.computeUniform(level); },
                    [&](const ColumnLoop &loop) { emitLoop(loop); });
    values.storeUniform(nest.stores);
  });
}

void CpuKernel::emitLoop(const ColumnLoop &loop) {
  for (uint32_t op : loop.reductions)
    reductions.at(op).begin();
  std::vector<uint64_t> borders = nest.segmentsOf(loop);
  for (size_t i = 0; i + 1 < borders.size(); ++i)
    emitSegment(loop, borders[i], borders[i + 1]);
  for (uint32_t op : loop.reductions)
    values.setUniform(op, reductions.at(op).finish());
}

void CpuKernel::emitSegment(const ColumnLoop &loop, uint64_t from,
                            uint64_t to) {
  unsigned lanes = code.target.lanes;
  // Partial results are found by a column's lane, which vectors keep.
  unsigned odd = loop.reductions.empty() ? 0 : unsigned(from % lanes);
  auto some = [&](unsigned first, uint64_t count) {
    emitVector(loop, code.integer(int64_t(from)),
               unsigned((from - first) % kKernelLanes),
               {lanes, first, first + unsigned(count)}, from);
    from += count;
  };
  if (odd)
    some(odd, std::min<uint64_t>(lanes - odd, to - from));
  unsigned vectors = unsigned(kKernelLanes / lanes);
  if (isLong(vectors))
    vectors = 1;
  uint64_t step = uint64_t(vectors) * lanes, blocks = (to - from) / step;
  auto lane = unsigned(from % kKernelLanes);
  uint64_t end = from + blocks * step;
  if (blocks > 1)
    code.loop(code.integer(int64_t(from)), code.integer(int64_t(end)),
              int64_t(step),
              [&](llvm::Value *i) { emitBlock(loop, i, lane, vectors, from); });
  else if (blocks == 1)
    emitBlock(loop, code.integer(int64_t(from)), lane, vectors, from);
  from = end;
  while (from < to)
    some(0, std::min<uint64_t>(lanes, to - from));
}

void CpuKernel::emitBlock(const ColumnLoop &loop, llvm::Value *first,
                          unsigned lane, unsigned vectors, uint64_t within) {
  unsigned lanes = code.target.lanes;
  // The last pass over a row finds it in the cache, and leaves the memory idle.
  if (nest.loops.size() > 1 && &loop == &nest.loops.back())
    values.fetchNextRow(loop.columns, first, vectors * lanes);
  for (unsigned i = 0; i < vectors; ++i)
    emitVector(loop, code.b.CreateNSWAdd(first, code.integer(i * lanes)),
               unsigned((lane + i * lanes) % kKernelLanes), {lanes, 0, lanes},
               within);
}

void CpuKernel::emitVector(const ColumnLoop &loop, llvm::Value *column,
                           unsigned lane, Lanes lanes, uint64_t within) {
  Position at{column, lanes, within};
  for (uint32_t op : loop.reductions) {
    llvm::Value *value = values.evaluate(nest.program.ops[op]->args[0], 0, at);
    llvm::Value *first =
        code.b.CreateSub(column, code.integer(int64_t(lanes.from)));
    reductions.at(op).take(value, first, lane, lanes);
  }
  values.store(loop.stores, at);
}

void fsdp::emitCpuKernel(llvm::Module &module, const EmitTarget &target,
                         const Nest &nest) {
  for (bool isShort : {false, true}) {
    llvm::Function *function = declare(module, target);
    try {
      return CpuKernel(*function, target, nest, isShort).emit();
    } catch (const EmitFailure &) {
      if (isShort)
        throw;
      function->eraseFromParent();
    }
  }
}
