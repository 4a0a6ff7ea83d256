//===- Program.cpp - The program of a group of operators ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/Program.h"

#include "ir/aten/Aten.h"
#include "ir/fsdp/Fsdp.h"
#include "kernels/CodeSize.h"
#include "passes/kernels/GroupProgram.h"
#include "passes/kernels/Spaces.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fsdp;
using plan::KernelProgramT;

/// Rows of more columns than this are taken where there are no shorter ones,
/// and parts of the work enough; else LibTorch deals the elements to threads
/// better.
static constexpr uint64_t kLongRow = uint64_t{1} << 16;
/// Rows of fewer columns than this are slower than long ones.
static constexpr uint64_t kShortRow = 8;
/// Numbers of a row, such as norms that are stacked, take a register each.
static constexpr size_t kMostOperands = 64;

static bool isKnownType(Type type, bool isResult) {
  if (isResult && isa<NoneType>(type))
    return true; // nobody asked for it
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() || tensor.getNumElements() == 0)
    return false;
  std::optional<plan::DType> dtype = toKernelDType(tensor.getElementType());
  if (!dtype || !isResult)
    return dtype && !isFloat8(*dtype);
  return isFloat(*dtype) || isFloat8(*dtype) || *dtype == plan::DType::i64 ||
         *dtype == plan::DType::bool_;
}

static bool hasKnownTypes(Operation *op) {
  return llvm::all_of(op->getOperands(),
                      [](Value operand) {
                        return isKernelConstant(operand) ||
                               isKnownType(operand.getType(), false);
                      }) &&
         llvm::all_of(op->getResultTypes(),
                      [](Type type) { return isKnownType(type, true); });
}

/// Whether there is a formula, tried on terms of any operands, since all that
/// it can refuse are types and arguments.
static bool hasFormula(const KernelMember &member) {
  KernelBuilder builder;
  SmallVector<Term> operands;
  for (Value operand : member.op->getOperands()) {
    if (std::optional<Term> constant = buildConstant(operand, builder)) {
      operands.push_back(*constant);
      continue;
    }
    auto type = cast<RankedTensorType>(operand.getType());
    operands.push_back(builder.load(static_cast<int64_t>(operands.size()),
                                    *toKernelDType(type.getElementType()), 1));
  }
  KernelCall call(member.op, builder, operands,
                  std::max<int64_t>(member.frame.columns, 1));
  return succeeded(member.rule->emit(call));
}

/// The rule and the frame, whatever the formula says of the arguments.
static FailureOr<KernelMember> findMember(Operation *op) {
  const KernelRule *rule = findKernelRule(op);
  if (!rule || op->getNumResults() == 0 || !hasKnownTypes(op))
    return failure();
  FailureOr<KernelFrame> frame = rule->frame(op);
  if (failed(frame))
    return failure();
  return KernelMember{op, rule, std::move(*frame)};
}

static bool isKnown(Operation *op, bool isView) {
  FailureOr<KernelMember> member = findMember(op);
  return succeeded(member) && member->rule->isView == isView &&
         hasFormula(*member);
}

bool fsdp::isKernelOp(Operation *op) { return isKnown(op, false); }

bool fsdp::isKernelView(Operation *op) { return isKnown(op, true); }

//===----------------------------------------------------------------------===//
// The best of several numbers of rows
//===----------------------------------------------------------------------===//

namespace {
class Search {
public:
  Search(ArrayRef<Operation *> ops, ArrayRef<Value> results)
      : ops(ops), results(results) {}

  std::optional<KernelOfOps> run(std::string &why);

private:
  LogicalResult readMembers(std::string &why);
  void findOrder();
  SmallVector<int64_t> listAnyRows() const;

  ArrayRef<Operation *> ops;
  ArrayRef<Value> results;
  SmallVector<KernelMember, 0> members;
  KernelMakers makers;
  SmallVector<unsigned> order; ///< of dims; none: as they are
};
} // namespace

LogicalResult Search::readMembers(std::string &why) {
  for (Operation *op : ops) {
    if (op->getNumResults() == 1 && isKernelConstant(op->getResult(0)))
      continue;
    FailureOr<KernelMember> member = findMember(op);
    if (failed(member)) {
      why = "kernels do not know " + op->getName().getStringRef().str() +
            " of these types and arguments";
      return failure();
    }
    members.push_back(std::move(*member));
  }
  for (KernelMember &member : members)
    for (Value result : member.op->getResults())
      makers[result] = &member;
  for (const KernelMember &member : members)
    for (Value operand : member.op->getOperands())
      if (KernelMember *maker = makers.lookup(operand);
          maker &&
          maker->frame.isRowSum[cast<OpResult>(operand).getResultNumber()]) {
        why = member.op->getName().getStringRef().str() +
              " reads a sum over rows";
        return failure();
      }
  return success();
}

/// Where all shapes are the same, elements may come in any order: that of the
/// first result in memory.
void Search::findOrder() {
  ArrayRef<int64_t> shape = shapeOf(results.front());
  auto isSame = [&](ArrayRef<int64_t> other) { return other == shape; };
  for (const KernelMember &member : members)
    if (!llvm::all_of(member.frame.operands, isSame) ||
        !llvm::all_of(member.op->getResults(), [&](Value value) {
          return isa<RankedTensorType>(value.getType()) &&
                 isSame(shapeOf(value));
        }))
      return;
  SmallVector<int64_t> strides =
      aten::getStrides(cast<RankedTensorType>(results.front().getType()));
  for (unsigned i = 0; i < shape.size(); ++i)
    order.push_back(i);
  llvm::stable_sort(
      order, [&](unsigned a, unsigned b) { return strides[a] > strides[b]; });
}

/// Rows for members which do not ask for any: as few as possible first.
SmallVector<int64_t> Search::listAnyRows() const {
  SmallVector<int64_t> rows;
  auto add = [&](ArrayRef<int64_t> shape) {
    int64_t outside = 1;
    rows.push_back(1);
    for (size_t i = 0; i < shape.size(); ++i)
      rows.push_back(outside *=
                     shape[order.size() == shape.size() ? order[i] : i]);
  };
  for (const KernelMember &member : members)
    add(member.frame.shape);
  llvm::sort(rows);
  rows.erase(llvm::unique(rows), rows.end());
  return rows;
}

std::optional<KernelOfOps> Search::run(std::string &why) {
  if (results.empty() || failed(readMembers(why)))
    return std::nullopt;
  SmallVector<int64_t> rows = listRows(members, makers);
  bool isFree = rows.empty();
  if (isFree) {
    findOrder();
    rows = listAnyRows();
  }
  std::optional<KernelOfOps> spare;
  for (int64_t count : rows) {
    if (failed(assignRows(members, makers, count))) {
      why = "operators need rows of different numbers";
      continue;
    }
    std::optional<KernelOfOps> kernel =
        KernelGroupBuilder(members, results, count, order).build(why);
    if (kernel && kernel->program.operands.size() > kMostOperands) {
      why = "more operands than threads have registers for";
      continue;
    }
    if (kernel &&
        codeSizeOf(kernel->program).value_or(kMostCode + 1) > kMostCode) {
      why = "more code than a kernel may have";
      continue;
    }
    if (!kernel || (spare && columnsOf(kernel->program) < kShortRow))
      continue;
    bool isLong = columnsOf(kernel->program) > kLongRow;
    if (isFlat(kernel->program) || (count > 1 && !isLong))
      return kernel;
    if (isLong && count < kKernelParts)
      why = "few rows have too many columns";
    else if (!spare)
      spare = std::move(kernel);
  }
  return spare;
}

std::optional<KernelOfOps> fsdp::buildKernel(ArrayRef<Operation *> ops,
                                             ArrayRef<Value> results,
                                             std::string *why) {
  std::string reason;
  std::optional<KernelOfOps> kernel = Search(ops, results).run(reason);
  if (!kernel && why)
    *why = reason;
  return kernel;
}
