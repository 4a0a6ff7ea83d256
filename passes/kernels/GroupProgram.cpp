//===- GroupProgram.cpp - The program of a group over given rows ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/GroupProgram.h"

#include "ir/aten/Aten.h"
#include "ir/fsdp/Fsdp.h"

using namespace mlir;
using namespace fsdp;
using plan::DType;

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

/// The only number of a constant; null for others, and other types.
static DenseElementsAttr getSplat(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!constant)
    return {};
  auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!elements || !elements.isSplat())
    return {};
  Type type = elements.getElementType();
  // f64 without dims does not make others f64.
  bool isNumber = type.isF64() && elements.getType().getRank() == 0;
  return isNumber || toKernelDType(type) ? elements : DenseElementsAttr();
}

bool fsdp::isKernelConstant(Value value) { return bool(getSplat(value)); }

std::optional<Term> fsdp::buildConstant(Value value, KernelBuilder &builder) {
  DenseElementsAttr elements = getSplat(value);
  if (!elements)
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType())) {
    APFloat number = elements.getSplatValue<APFloat>();
    return builder.number(number.convertToDouble());
  }
  APInt number = elements.getSplatValue<APInt>();
  if (number.getBitWidth() == 1)
    return builder.truth(number.getBoolValue());
  bool isUnsigned = elements.getElementType().isUnsignedInteger();
  return builder.integer(isUnsigned
                             ? static_cast<int64_t>(number.getZExtValue())
                             : number.getSExtValue());
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

static std::string describe(Value value) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << value.getType();
  return text;
}

/// Of a tensor that is broadcast to `frame`, in the group's order.
AccessDims KernelGroupBuilder::listDims(RankedTensorType type,
                                        ArrayRef<int64_t> frame) const {
  SmallVector<int64_t> strides = aten::getStrides(type);
  AccessDims dims;
  size_t missing = frame.size() - type.getRank();
  for (size_t i = 0; i < frame.size(); ++i) {
    bool isRead = i >= missing && type.getDimSize(i - missing) == frame[i];
    dims.push_back({frame[i], isRead ? strides[i - missing] : 0});
  }
  if (order.size() != frame.size())
    return dims;
  AccessDims ordered;
  for (unsigned dim : order)
    ordered.push_back(dims[dim]);
  return ordered;
}

/// Whether what was made inside lies under the member's elements as PyTorch
/// broadcasts it.
bool KernelGroupBuilder::isFit(const KernelMember &member, unsigned operand,
                               const Made &value) const {
  ArrayRef<int64_t> frame = member.frame.operands[operand];
  int64_t own = rowsOf(member), columns = countElements(frame) / own;
  switch (findFit(shapeOf(member.op->getOperand(operand)), frame, own)) {
  case KernelFit::Same:
    return value.isOneRow == member.isOneRow && value.columns == columns;
  case KernelFit::Row:
    return value.isOneRow == member.isOneRow && value.columns == 1;
  case KernelFit::Column:
    return value.isOneRow && value.columns == columns;
  case KernelFit::Single:
    return value.columns == 1 && (value.isOneRow || rows == 1);
  case KernelFit::Other:
    return false;
  }
  llvm_unreachable("all fits are above");
}

std::optional<Term> KernelGroupBuilder::load(const KernelMember &member,
                                             unsigned operand) {
  Value value = member.op->getOperand(operand);
  auto type = cast<RankedTensorType>(value.getType());
  const KernelShape &frame = member.frame.operands[operand];
  int64_t own = rowsOf(member);
  std::optional<Access> access;
  if (type.getRank() <= static_cast<int64_t>(frame.size()))
    access = findAccess(listDims(type, frame), countElements(frame) / own);
  if (!access) {
    (void)fail("the rows of an operand's columns lie in no even distance: " +
               describe(value));
    return std::nullopt;
  }
  if (member.isOneRow)
    access = repeatRow(*access, rows);
  DType dtype = *toKernelDType(type.getElementType());
  size_t number = 0;
  while (number < reads.size() && reads[number].value != value)
    ++number;
  if (number == reads.size())
    reads.push_back({value, *access, dtype});
  if (!(reads[number].access == *access)) {
    (void)fail("an operand is read in two ways: " + describe(value));
    return std::nullopt;
  }
  return builder.load(static_cast<int64_t>(number), dtype, access->columns);
}

std::optional<Term> KernelGroupBuilder::read(const KernelMember &member,
                                             unsigned operand) {
  Value value = member.op->getOperand(operand);
  if (std::optional<Term> constant = buildConstant(value, builder))
    return constant;
  auto it = made.find(value);
  if (it == made.end())
    return load(member, operand);
  if (!isFit(member, operand, it->second)) {
    (void)fail(member.op->getName().getStringRef().str() +
               " broadcasts what was made inside in another way than "
               "along rows or columns: " +
               describe(value));
    return std::nullopt;
  }
  return it->second.term;
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

LogicalResult KernelGroupBuilder::emit(const KernelMember &member) {
  SmallVector<Term> operands;
  for (unsigned i = 0; i < member.op->getNumOperands(); ++i) {
    std::optional<Term> term = read(member, i);
    if (!term)
      return failure();
    operands.push_back(*term);
  }
  int64_t own = rowsOf(member);
  KernelCall call(member.op, builder, operands,
                  countElements(member.frame.shape) / own);
  if (failed(member.rule->emit(call)))
    return fail("kernels do not know " +
                member.op->getName().getStringRef().str() +
                " of these arguments");
  for (auto [result, term, isRowSum] : llvm::zip_equal(
           member.op->getResults(), call.getResults(), member.frame.isRowSum)) {
    if (!isa<RankedTensorType>(result.getType()))
      continue; // nobody asked for it
    int64_t columns = countElements(shapeOf(result)) / (isRowSum ? 1 : own);
    made[result] = {term, member.isOneRow, isRowSum, columns};
  }
  return success();
}

LogicalResult KernelGroupBuilder::write(Value result) {
  auto it = made.find(result);
  if (it == made.end())
    return fail("a result is made outside");
  const Made &value = it->second;
  if (value.isOneRow && rows > 1)
    return fail("a result is the same for all rows: " + describe(result));
  auto type = cast<RankedTensorType>(result.getType());
  std::optional<Access> access =
      findAccess(listDims(type, type.getShape()), value.columns);
  if (!access || (access->columns != value.columns))
    return fail("the rows of a result's columns lie in no even distance: " +
                describe(result));
  if (value.isRowSum)
    access = repeatRow(*access, rows);
  Term term = value.term;
  if (!value.isRowSum)
    term = builder.spread(term, value.columns);
  writes.push_back({result, *access, *toKernelDType(type.getElementType()),
                    static_cast<int32_t>(term.index)});
  return success();
}

//===----------------------------------------------------------------------===//
// The program
//===----------------------------------------------------------------------===//

/// Leaves what the written operands need.
void KernelGroupBuilder::removeDead(plan::KernelProgramT &program) {
  std::vector<bool> isNeeded(program.ops.size());
  for (const Operand &operand : writes)
    isNeeded[operand.written] = true;
  SmallVector<bool> isRead(reads.size(), false);
  for (size_t i = program.ops.size(); i-- > 0;) {
    if (!isNeeded[i])
      continue;
    for (uint32_t arg : program.ops[i]->args)
      isNeeded[arg] = true;
    if (kindOf(*program.ops[i]) == KernelOpKind::load)
      isRead[program.ops[i]->integers[0]] = true;
  }
  SmallVector<int64_t> operands(reads.size());
  SmallVector<uint32_t> places(program.ops.size());
  SmallVector<Operand, 0> left;
  for (size_t i = 0; i < reads.size(); ++i) {
    operands[i] = static_cast<int64_t>(left.size());
    if (isRead[i])
      left.push_back(reads[i]);
  }
  reads = std::move(left);
  std::vector<std::unique_ptr<plan::KernelOpT>> ops;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    places[i] = static_cast<uint32_t>(ops.size());
    if (!isNeeded[i])
      continue;
    plan::KernelOpT &op = *program.ops[i];
    for (uint32_t &arg : op.args)
      arg = places[arg];
    if (kindOf(op) == KernelOpKind::load)
      op.integers[0] = operands[op.integers[0]];
    ops.push_back(std::move(program.ops[i]));
  }
  program.ops = std::move(ops);
  for (Operand &operand : writes)
    operand.written = static_cast<int32_t>(places[operand.written]);
}

LogicalResult KernelGroupBuilder::finish(KernelOfOps &kernel) {
  plan::KernelProgramT &program = kernel.program;
  program.ops = builder.takeOps();
  removeDead(program);
  SmallVector<Access> accesses;
  for (const Operand &operand : llvm::concat<Operand>(reads, writes))
    accesses.push_back(operand.access);
  std::optional<SmallVector<int64_t>> dims = divideRows(accesses);
  if (!dims)
    return fail("the rows of operands have no dims in common");
  program.rows.assign(dims->begin(), dims->end());
  for (const Operand &operand : llvm::concat<Operand>(reads, writes)) {
    auto made = std::make_unique<plan::KernelOperandT>();
    made->dtype = operand.dtype;
    SmallVector<int64_t> strides = getRowStrides(operand.access, *dims);
    made->row_strides.assign(strides.begin(), strides.end());
    made->columns = static_cast<uint64_t>(operand.access.columns);
    made->column_stride = operand.access.columnStride;
    made->written = operand.written;
    program.operands.push_back(std::move(made));
  }
  for (const Operand &operand : reads)
    kernel.inputs.push_back(operand.value);
  if (std::optional<std::string> problem = checkKernel(program))
    return fail("its program " + *problem);
  return success();
}

std::optional<KernelOfOps> KernelGroupBuilder::build(std::string &reason) {
  KernelOfOps kernel;
  LogicalResult result = success();
  for (const KernelMember &member : members)
    if (succeeded(result))
      result = emit(member);
  for (Value each : results)
    if (succeeded(result))
      result = write(each);
  if (succeeded(result))
    result = finish(kernel);
  if (succeeded(result))
    return kernel;
  reason = why;
  return std::nullopt;
}
