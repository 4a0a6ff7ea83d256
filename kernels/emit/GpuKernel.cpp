//===- GpuKernel.cpp - A program's functions for a GPU --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A row is computed by a block, or, where it is short, by some threads of a
// warp; a thread has the same columns in all passes over them. Where these are
// few, it keeps what it has loaded of them.
//
//===----------------------------------------------------------------------===//

#include "kernels/emit/GpuKernel.h"

#include "kernels/Failure.h"
#include "kernels/emit/BlockReduction.h"
#include "kernels/emit/Elements.h"
#include "kernels/emit/Evaluator.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <bit>
#include <set>

using namespace fsdp;
using plan::DType;

static constexpr unsigned kThreads = 256, kGlobalSpace = 1;
/// Vectors of a thread that are kept.
static constexpr uint64_t kMostKept = 8;

static llvm::Function *declare(llvm::Module &module, const std::string &name,
                               size_t operands) {
  llvm::LLVMContext &context = module.getContext();
  std::vector<llvm::Type *> types(
      operands, llvm::PointerType::get(context, kGlobalSpace));
  auto *type =
      llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false);
  auto *function = llvm::Function::Create(type, llvm::Function::ExternalLinkage,
                                          name, module);
  function->setCallingConv(llvm::CallingConv::PTX_Kernel);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  return function;
}

static std::vector<llvm::Value *> argumentsOf(llvm::Function &function) {
  std::vector<llvm::Value *> arguments;
  for (llvm::Argument &argument : function.args())
    arguments.push_back(&argument);
  return arguments;
}

namespace {

/// Columns of a loop that come from the same places.
struct Segment {
  uint64_t from, to;
};

/// What follows from the program alone.
struct Shape {
  explicit Shape(const Nest &nest);
  uint64_t vectorsOf(uint64_t columns) const {
    return (columns + lanes - 1) / lanes;
  }
  /// Those of a thread.
  uint64_t shareOf(const Segment &segment) const {
    return (vectorsOf(segment.to - segment.from) + rowThreads - 1) / rowThreads;
  }

  std::map<uint64_t, std::vector<Segment>> segments; ///< by loops' columns
  bool hasSums = false;
  unsigned lanes = 8;
  unsigned threads = kThreads, rowThreads = 1;
  int64_t rows, blocks;
};

class GpuKernel {
public:
  GpuKernel(llvm::Function &function, const EmitTarget &target,
            const Nest &nest, const Shape &shape, uint64_t alignment)
      : code(function, target), nest(nest), shape(shape),
        pointers(argumentsOf(function)),
        values(code, nest, pointers, alignment) {}

  void emit();

private:
  using Body = std::function<void(Position &)>;

  llvm::Value *read(llvm::Intrinsic::ID id) {
    return code.b.CreateIntrinsic(id, llvm::ArrayRef<llvm::Type *>(), {});
  }
  void emitLine();
  void emitRow(llvm::Value *row, llvm::Value *isThere);
  void emitLoop(const ColumnLoop &loop);
  bool isKept(uint64_t columns) const;
  std::vector<Position> makePositions(uint64_t columns);
  void forEach(const ColumnLoop &loop,
               const std::function<void(Position &, size_t)> &body);
  void beginSums();
  void addSum(size_t operand, Position &at, size_t number);
  void finishSums();
  llvm::Value *partialRow(size_t operand);
  void storeFloats(llvm::Value *values, llvm::Value *at);

  Code code;
  const Nest &nest;
  const Shape &shape;
  std::vector<llvm::Value *> pointers;
  Evaluator values;
  RowThreads threads{};
  llvm::Value *block = nullptr;
  llvm::Value *isRow = nullptr; ///< null: it is one
  std::map<uint32_t, BlockReduction> reductions;
  std::map<uint64_t, std::vector<Position>> kept; ///< by columns
  /// Sums over rows that threads keep, by operand and number of the vector.
  std::map<std::pair<size_t, size_t>, llvm::AllocaInst *> sums;
};

} // namespace

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

/// The row that a block is for has so many threads, and each some vectors.
Shape::Shape(const Nest &nest) : rows(rowsOf(nest.program)) {
  std::map<uint64_t, std::set<uint64_t>> borders;
  for (const ColumnLoop &loop : nest.loops)
    for (uint64_t border : nest.segmentsOf(loop))
      borders[loop.columns].insert(border);
  uint64_t longest = 1, all = 0;
  for (const auto &[columns, at] : borders)
    for (auto to = std::next(at.begin()); to != at.end(); ++to) {
      segments[columns].push_back({*std::prev(to), *to});
      longest = std::max(longest, *to - *std::prev(to));
      all |= *to;
    }
  if (nest.isLine)
    all = isFlat(nest.program) ? columnsOf(nest.program)
                               : uint64_t(rows) * uint64_t(nest.lineColumns);
  while (all % lanes)
    lanes /= 2;
  for (size_t i = 0; i < nest.program.operands.size(); ++i)
    hasSums = hasSums || takesRowSum(nest.program, i);
  if (nest.isLine) {
    blocks = int64_t((vectorsOf(all) + kThreads - 1) / kThreads);
    return;
  }
  uint64_t vectors = vectorsOf(longest);
  if (!hasSums && vectors <= kWarp) {
    rowThreads = unsigned(std::bit_ceil(vectors));
    int64_t together = threads / rowThreads;
    blocks = (rows + together - 1) / together;
    return;
  }
  // A block has as many registers as it may; numbers of rows take one each.
  constexpr size_t kManyOperands = 32;
  uint64_t most = nest.program.operands.size() > kManyOperands ? 256
                  : hasSums                                    ? 512
                                                               : 1024;
  uint64_t wanted = std::bit_ceil((vectors + 1) / 2);
  threads = rowThreads = unsigned(std::clamp<uint64_t>(wanted, kWarp, most));
  blocks = hasSums ? std::clamp<int64_t>(rows, 1, kMostPartialRows) : rows;
}

void GpuKernel::emit() {
  code.function.addFnAttr("nvvm.maxntid", std::to_string(shape.threads));
  threads.count = shape.rowThreads;
  threads.thread = read(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
  llvm::Type *number = code.b.getInt64Ty();
  llvm::Value *thread = code.b.CreateZExt(threads.thread, number);
  threads.number = code.b.CreateAnd(thread, code.integer(shape.rowThreads - 1));
  block = code.b.CreateZExt(read(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x),
                            number);
  if (nest.isLine) {
    emitLine();
  } else if (shape.hasSums) {
    for (const ColumnLoop &loop : nest.loops)
      for (uint32_t op : loop.reductions)
        reductions.try_emplace(op, code, kindOf(*nest.program.ops[op]), threads,
                               shape.lanes);
    beginSums();
    code.loop(block, code.integer(shape.rows), shape.blocks,
              [&](llvm::Value *row) { emitRow(row, nullptr); });
    finishSums();
  } else if (shape.rows > 0) {
    for (const ColumnLoop &loop : nest.loops)
      for (uint32_t op : loop.reductions)
        reductions.try_emplace(op, code, kindOf(*nest.program.ops[op]), threads,
                               shape.lanes);
    int64_t together = shape.threads / shape.rowThreads;
    llvm::Value *row = code.b.CreateAdd(
        code.b.CreateMul(block, code.integer(together)),
        code.b.CreateUDiv(thread, code.integer(shape.rowThreads)));
    llvm::Value *isThere = nullptr;
    if (shape.rows % together) {
      // Others compute the last row, too, and store nothing.
      isThere = code.b.CreateICmpSLT(row, code.integer(shape.rows));
      row = code.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, row,
                                         code.integer(shape.rows - 1));
    }
    emitRow(row, isThere);
  }
  code.b.CreateRetVoid();
}

void GpuKernel::emitLine() {
  values.beginRow(nullptr);
  values.computeUniform(0);
  int64_t all = isFlat(nest.program) ? int64_t(columnsOf(nest.program))
                                     : shape.rows * nest.lineColumns;
  llvm::Value *vector =
      code.b.CreateAdd(code.b.CreateMul(block, code.integer(shape.threads)),
                       code.b.CreateZExt(threads.thread, code.b.getInt64Ty()));
  llvm::Value *column = code.b.CreateMul(vector, code.integer(shape.lanes));
  code.when(code.b.CreateICmpSLT(column, code.integer(all)), [&] {
    Position at{column, {shape.lanes, 0, shape.lanes}, 0};
    values.store(nest.stores, at);
  });
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void GpuKernel::emitRow(llvm::Value *row, llvm::Value *isThere) {
  isRow = isThere;
  kept.clear();
  values.beginRow(nest.rows.empty() ? nullptr : row);
  nest.visitLoops([&](unsigned level) { values.computeUniform(level); },
                  [&](const ColumnLoop &loop) { emitLoop(loop); });
  std::vector<size_t> stores;
  for (size_t operand : nest.stores)
    if (takesRowSum(nest.program, operand)) {
      Position at{code.integer(0), {}, 0, isRow};
      addSum(operand, at, 0);
    } else {
      stores.push_back(operand);
    }
  if (stores.empty())
    return;
  // What one thread writes may be what others were to read.
  if (shape.rowThreads > kWarp)
    waitForBlock(code);
  else if (shape.rowThreads > 1)
    code.b.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {},
                           {code.b.getInt32(-1)});
  llvm::Value *isFirst = code.b.CreateICmpEQ(threads.number, code.integer(0));
  values.storeUniform(stores,
                      isRow ? code.b.CreateAnd(isFirst, isRow) : isFirst);
}

bool GpuKernel::isKept(uint64_t columns) const {
  uint64_t share = 0;
  for (const Segment &segment : shape.segments.at(columns))
    share += shape.shareOf(segment);
  return share <= kMostKept;
}

/// A thread's vectors of a row, those that are not there in the place of
/// others.
std::vector<Position> GpuKernel::makePositions(uint64_t columns) {
  std::vector<Position> positions;
  Lanes lanes{shape.lanes, 0, shape.lanes};
  llvm::Value *first =
      code.b.CreateMul(threads.number, code.integer(shape.lanes));
  int64_t step = int64_t(shape.rowThreads) * shape.lanes;
  for (const Segment &segment : shape.segments.at(columns)) {
    auto from = int64_t(segment.from), to = int64_t(segment.to);
    for (; from < to; from += step) {
      llvm::Value *column = code.b.CreateAdd(first, code.integer(from));
      llvm::Value *isThere = isRow;
      if (from + step > to) {
        llvm::Value *isColumn = code.b.CreateICmpSLT(column, code.integer(to));
        isThere = isRow ? code.b.CreateAnd(isColumn, isRow) : isColumn;
        column = code.b.CreateBinaryIntrinsic(
            llvm::Intrinsic::smin, column,
            code.integer(to - int64_t(shape.lanes)));
      }
      positions.push_back({column, lanes, segment.from, isThere});
    }
  }
  return positions;
}

void GpuKernel::forEach(const ColumnLoop &loop,
                        const std::function<void(Position &, size_t)> &body) {
  if (isKept(loop.columns)) {
    auto [found, isNew] = kept.try_emplace(loop.columns);
    if (isNew)
      found->second = makePositions(loop.columns);
    for (size_t i = 0; i < found->second.size(); ++i) {
      // What was loaded stays; what was computed is less than its registers.
      found->second[i].known.clear();
      body(found->second[i], i);
    }
    return;
  }
  llvm::Value *first =
      code.b.CreateMul(threads.number, code.integer(shape.lanes));
  for (const Segment &segment : shape.segments.at(loop.columns))
    code.loop(code.b.CreateAdd(first, code.integer(int64_t(segment.from))),
              code.integer(int64_t(segment.to)),
              int64_t(shape.rowThreads) * shape.lanes, [&](llvm::Value *i) {
                Position at{
                    i, {shape.lanes, 0, shape.lanes}, segment.from, isRow};
                body(at, 0);
              });
}

void GpuKernel::emitLoop(const ColumnLoop &loop) {
  std::vector<size_t> stores, added;
  for (size_t operand : loop.stores)
    (takesRowSum(nest.program, operand) ? added : stores).push_back(operand);
  for (uint32_t op : loop.reductions)
    reductions.at(op).begin();
  forEach(loop, [&](Position &at, size_t number) {
    for (uint32_t op : loop.reductions)
      reductions.at(op).take(
          values.evaluate(nest.program.ops[op]->args[0], 0, at), at.isThere);
    for (size_t operand : added)
      addSum(operand, at, number);
    values.store(stores, at);
  });
  for (uint32_t op : loop.reductions)
    values.setUniform(op, reductions.at(op).finish());
}

//===----------------------------------------------------------------------===//
// Sums over rows
//===----------------------------------------------------------------------===//

/// The block's, of an operand.
llvm::Value *GpuKernel::partialRow(size_t operand) {
  auto columns = int64_t(nest.program.operands[operand]->columns);
  return code.b.CreateInBoundsGEP(
      code.b.getFloatTy(), pointers[operand],
      code.b.CreateMul(block, code.integer(columns)));
}

void GpuKernel::storeFloats(llvm::Value *stored, llvm::Value *at) {
  code.b.CreateAlignedStore(stored, at, llvm::Align(4));
}

/// Zeros: in registers, or where a thread adds up what it has the columns of.
void GpuKernel::beginSums() {
  for (size_t i = 0; i < nest.program.operands.size(); ++i) {
    if (!takesRowSum(nest.program, i))
      continue;
    uint64_t columns = nest.program.operands[i]->columns;
    llvm::Type *vector = Code::ofWidth(code.b.getFloatTy(), shape.lanes);
    if (columns == 1 || isKept(columns)) {
      size_t count = columns == 1 ? 1 : makePositions(columns).size();
      llvm::Type *type = columns == 1 ? code.b.getFloatTy() : vector;
      for (size_t number = 0; number < count; ++number) {
        llvm::AllocaInst *sum = sums[{i, number}] = code.slot(type);
        code.b.CreateStore(llvm::Constant::getNullValue(type), sum);
      }
      continue;
    }
    ColumnLoop loop{0, columns, {}, {}};
    forEach(loop, [&](Position &at, size_t) {
      storeFloats(llvm::Constant::getNullValue(vector),
                  code.b.CreateInBoundsGEP(code.b.getFloatTy(), partialRow(i),
                                           at.column));
    });
  }
}

void GpuKernel::addSum(size_t operand, Position &at, size_t number) {
  auto op = uint32_t(nest.program.operands[operand]->written);
  llvm::Value *value = values.evaluate(op, 0, at);
  auto kept = sums.find({operand, number});
  if (kept != sums.end()) {
    llvm::Value *before = code.b.CreateLoad(value->getType(), kept->second);
    code.b.CreateStore(code.add(before, value), kept->second);
    return;
  }
  llvm::Value *to = code.b.CreateInBoundsGEP(code.b.getFloatTy(),
                                             partialRow(operand), at.column);
  llvm::Value *before =
      code.b.CreateAlignedLoad(value->getType(), to, llvm::Align(4));
  storeFloats(code.add(before, value), to);
}

void GpuKernel::finishSums() {
  isRow = nullptr;
  for (size_t i = 0; i < nest.program.operands.size(); ++i) {
    if (!sums.contains({i, 0}))
      continue;
    uint64_t columns = nest.program.operands[i]->columns;
    std::vector<Position> positions;
    if (columns == 1)
      positions.push_back(
          {code.integer(0),
           {},
           0,
           code.b.CreateICmpEQ(threads.number, code.integer(0))});
    else
      positions = makePositions(columns);
    for (size_t number = 0; number < positions.size(); ++number) {
      llvm::AllocaInst *sum = sums.at({i, number});
      llvm::Value *value = code.b.CreateLoad(sum->getAllocatedType(), sum);
      auto store = [&] {
        storeFloats(value,
                    code.b.CreateInBoundsGEP(code.b.getFloatTy(), partialRow(i),
                                             positions[number].column));
      };
      llvm::Value *isThere = positions[number].isThere;
      isThere ? code.when(isThere, store) : store();
    }
  }
}

/// Adds up the partial rows of an operand, a thread a column, and rounds to its
/// type.
static void emitSum(llvm::Function &function, const EmitTarget &target,
                    DType dtype, int64_t columns, int64_t rows) {
  Code code(function, target);
  function.addFnAttr("nvvm.maxntid", std::to_string(kThreads));
  auto read = [&](llvm::Intrinsic::ID id) {
    return code.b.CreateZExt(
        code.b.CreateIntrinsic(id, llvm::ArrayRef<llvm::Type *>(), {}),
        code.b.getInt64Ty());
  };
  llvm::Value *block = read(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
  llvm::Value *column =
      code.b.CreateAdd(code.b.CreateMul(block, code.integer(kThreads)),
                       read(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x));
  llvm::Type *type = code.b.getFloatTy();
  code.when(code.b.CreateICmpSLT(column, code.integer(columns)), [&] {
    llvm::AllocaInst *sum = code.slot(type);
    code.b.CreateStore(llvm::ConstantFP::get(type, 0), sum);
    code.loop(
        column, code.integer(rows * columns), columns, [&](llvm::Value *i) {
          llvm::Value *part = code.b.CreateLoad(
              type, code.b.CreateInBoundsGEP(type, function.getArg(0), i));
          code.b.CreateStore(code.add(code.b.CreateLoad(type, sum), part), sum);
        });
    code.b.CreateStore(
        narrow(code, dtype, code.b.CreateLoad(type, sum), /*isRounded=*/false),
        code.b.CreateInBoundsGEP(memoryType(code, dtype), function.getArg(1),
                                 column));
  });
  code.b.CreateRetVoid();
}

std::vector<PtxLaunch> fsdp::emitGpuKernel(llvm::Module &module,
                                           const EmitTarget &target,
                                           const Nest &nest) {
  Shape shape(nest);
  if (shape.blocks > std::numeric_limits<int32_t>::max())
    throw EmitFailure("has more blocks of threads than a GPU");
  size_t operands = nest.program.operands.size();
  uint32_t blocks = uint32_t(shape.blocks);
  std::vector<PtxLaunch> launches;
  for (auto [name, alignment] :
       {std::pair("kernel", 1), std::pair("kernel_aligned", 16)}) {
    GpuKernel(*declare(module, name, operands), target, nest, shape,
              uint64_t(alignment))
        .emit();
    launches.push_back(
        {name, shape.threads, blocks, shape.hasSums ? blocks : 0});
  }
  for (size_t i = 0; i < operands; ++i) {
    if (!takesRowSum(nest.program, i))
      continue;
    const plan::KernelOperandT &operand = *nest.program.operands[i];
    auto columns = int64_t(operand.columns);
    std::string name = "sum_" + std::to_string(i);
    emitSum(*declare(module, name, 2), target, operand.dtype, columns,
            shape.blocks);
    launches.push_back(
        {name, kThreads, uint32_t((columns + kThreads - 1) / kThreads), 0});
  }
  return launches;
}
