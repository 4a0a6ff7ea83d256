//===- Call.cpp - An operator whose formula is written --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/Call.h"

#include "ir/aten/Aten.h"
#include "ir/aten/Matchers.h"
#include "passes/kernels/Promotion.h"
#include "passes/kernels/Updates.h"

using namespace mlir;
using namespace fsdp;
using plan::DType;

std::optional<DType> fsdp::toKernelDType(Type element) {
  if (element.isF32())
    return DType::f32;
  if (element.isBF16())
    return DType::bf16;
  if (element.isF16())
    return DType::f16;
  if (isa<Float8E4M3FNType>(element))
    return DType::f8e4m3fn;
  if (isa<Float8E5M2Type>(element))
    return DType::f8e5m2;
  if (element.isInteger(1))
    return DType::bool_;
  if (element.isUnsignedInteger(8))
    return DType::u8;
  if (element.isSignlessInteger(8))
    return DType::i8;
  if (element.isSignlessInteger(16))
    return DType::i16;
  if (element.isSignlessInteger(32))
    return DType::i32;
  if (element.isSignlessInteger(64))
    return DType::i64;
  return std::nullopt;
}

KernelCall::KernelCall(Operation *op, KernelBuilder &builder,
                       ArrayRef<Term> operands, int64_t columns)
    : op(op), builder(builder), columns(columns), operands(operands) {
  unsigned next = 0;
  if (auto update = dyn_cast<UpdateOp>(op))
    for (StringRef name : nameOperands(update))
      names.emplace_back(name, next++);
  else if (aten::lookupSchema(op))
    for (const aten::BoundTensors &bound : aten::getTensorArguments(op))
      for (Value tensor : bound.tensors)
        if (tensor)
          names.emplace_back(bound.argument->name, next++);
  common = promoteOperands(op);
  // Functions of integers whose results are numbers compute in their type.
  if (auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType())) {
    std::optional<DType> result = toKernelDType(type.getElementType());
    if (result && isFloat(*result) && !isFloat(common) && common != DType::f64)
      common = *result;
    else if (common != DType::bool_ && !isFloat(common) && common != DType::f64)
      common = DType::i64; // inside, and for results
  }
}

std::optional<unsigned> KernelCall::find(StringRef name) const {
  const auto *it = llvm::find_if(
      names, [&](const auto &each) { return each.first == name; });
  return it == names.end() ? std::nullopt : std::optional(it->second);
}

bool KernelCall::hasTensor(StringRef name) const {
  return find(name).has_value();
}

Term KernelCall::getStored(StringRef name) const {
  return operands[*find(name)];
}

SmallVector<Term> KernelCall::getStoredList(StringRef name) const {
  SmallVector<Term> terms;
  for (auto [each, number] : names)
    if (each == name)
      terms.push_back(operands[number]);
  return terms;
}

Value KernelCall::getValue(StringRef name) const {
  return op->getOperand(*find(name));
}

Term KernelCall::getNumber(StringRef name) {
  return convert(getStored(name), DType::f32);
}

Term KernelCall::get(StringRef name) {
  if (hasTensor(name))
    return convert(getStored(name), common);
  return getConstant(name, common);
}

bool KernelCall::isScalar(StringRef name) const {
  if (!hasTensor(name))
    return true;
  auto type = cast<RankedTensorType>(getValue(name).getType());
  return type.getNumElements() == 1;
}

std::optional<double> KernelCall::getStatic(StringRef name) const {
  Attribute value = aten::getStaticArgument(op, name);
  if (auto flag = dyn_cast_or_null<BoolAttr>(value))
    return flag.getValue();
  return aten::getNumber(value);
}

Term KernelCall::convert(Term term, DType to) {
  KernelType from = builder.get(term).type;
  bool isInteger = to == DType::i64;
  if (to == DType::bool_) {
    if (from == KernelType::f32)
      return !(term == 0.0);
    return from == KernelType::i64
               ? !apply(KernelOpKind::equal_integers, term, builder.integer(0))
               : term;
  }
  if (from == KernelType::boolean)
    return isInteger ? select(term, builder.integer(1), builder.integer(0))
                     : select(term, builder.number(1), builder.number(0));
  if (isInteger)
    return term; // numbers become none: rules refuse that
  if (from == KernelType::i64)
    term = apply(KernelOpKind::to_f32, term);
  return builder.round(term, to);
}

bool KernelCall::canConvert(Term term, DType to) const {
  return to == DType::bool_ || isFloat(to) || isFloat8(to) ||
         (to == DType::i64 && builder.get(term).type != KernelType::f32);
}

Term KernelCall::getConstant(StringRef name, DType type) {
  auto integer =
      dyn_cast_or_null<IntegerAttr>(aten::getStaticArgument(op, name));
  if (type == DType::i64 && integer && !isa<BoolAttr>(integer))
    return builder.integer(integer.getInt()); // not all are doubles
  return constant(getStatic(name).value_or(0), type);
}

Term KernelCall::constant(double value, DType type) {
  if (type == DType::bool_)
    return builder.truth(value != 0);
  if (!isFloat(type) && !isFloat8(type))
    return builder.integer(static_cast<int64_t>(value));
  return builder.round(builder.number(value), type);
}

DType KernelCall::getResultType() const {
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  return type ? *toKernelDType(type.getElementType()) : DType::f64;
}

void KernelCall::give(Term result) {
  auto type =
      dyn_cast<RankedTensorType>(op->getResult(results.size()).getType());
  results.push_back(
      type ? builder.round(result, *toKernelDType(type.getElementType()))
           : result);
}

void KernelCall::giveRowSum(Term result) {
  results.push_back(builder.append(KernelOpKind::sum_rows, {result}));
}
