//===- Comparisons.cpp - Truths, and what they choose ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/Rules.h"

using namespace mlir;
using namespace fsdp;
using plan::DType;

namespace {
enum class Compared { Equal, Unequal, Less, LessEqual, Greater, GreaterEqual };
} // namespace

static Term compare(KernelCall &call, Compared how, Term a, Term b) {
  bool isFloat = fsdp::isFloat(call.getCommonType());
  auto make = [&](KernelOpKind floats, KernelOpKind integers, Term x, Term y) {
    return apply(isFloat ? floats : integers, x, y);
  };
  switch (how) {
  case Compared::Equal:
    return make(KernelOpKind::equal, KernelOpKind::equal_integers, a, b);
  case Compared::Unequal:
    return !compare(call, Compared::Equal, a, b);
  case Compared::Less:
    return make(KernelOpKind::less, KernelOpKind::less_integers, a, b);
  case Compared::LessEqual:
    return make(KernelOpKind::less_equal, KernelOpKind::less_equal_integers, a,
                b);
  case Compared::Greater:
    return compare(call, Compared::Less, b, a);
  case Compared::GreaterEqual:
    return compare(call, Compared::LessEqual, b, a);
  }
  llvm_unreachable("all comparisons are above");
}

template <Compared how>
static LogicalResult emitCompare(KernelCall &call) {
  if (call.getCommonType() == DType::f64)
    return failure();
  Term a = call.get("self"), b = call.get("other");
  // Truths are compared as 0 and 1; numbers that are smaller than i64 are i64
  // inside.
  if (!isFloat(call.getCommonType())) {
    a = call.convert(a, DType::i64);
    b = call.convert(b, DType::i64);
  }
  call.give(compare(call, how, a, b));
  return success();
}

static Term asTruth(KernelCall &call, StringRef name) {
  return call.convert(call.getStored(name), DType::bool_);
}

template <Term (*of)(Term, Term)>
static LogicalResult emitLogical(KernelCall &call) {
  call.give(of(asTruth(call, "self"), asTruth(call, "other")));
  return success();
}

/// Of truths alone.
template <Term (*of)(Term, Term)>
static LogicalResult emitBitwise(KernelCall &call) {
  if (call.getCommonType() != DType::bool_)
    return failure();
  call.give(of(call.get("self"), call.get("other")));
  return success();
}

static Term both(Term a, Term b) { return a & b; }
static Term either(Term a, Term b) { return a | b; }
static Term oneOf(Term a, Term b) { return a ^ b; }

static LogicalResult emitLogicalNot(KernelCall &call) {
  call.give(!asTruth(call, "self"));
  return success();
}

static LogicalResult emitBitwiseNot(KernelCall &call) {
  return call.getCommonType() == DType::bool_ ? emitLogicalNot(call)
                                              : failure();
}

static LogicalResult emitIsNan(KernelCall &call) {
  if (!isFloat(call.getCommonType()))
    return failure();
  Term x = call.get("self");
  call.give(!(x == x));
  return success();
}

static LogicalResult emitWhere(KernelCall &call) {
  if (!call.hasTensor("self") || !call.hasTensor("other"))
    return failure();
  DType type = call.getResultType();
  Term which = call.convert(call.getStored("condition"), DType::bool_);
  Term self = call.getStored("self"), other = call.getStored("other");
  if (!call.canConvert(self, type) || !call.canConvert(other, type))
    return failure();
  call.give(select(which, call.convert(self, type), call.convert(other, type)));
  return success();
}

/// The number, or the tensor's only element, in the type of `self`.
static LogicalResult emitMaskedFill(KernelCall &call) {
  DType type = call.getResultType();
  Term self = call.getStored("self");
  Term mask = call.convert(call.getStored("mask"), DType::bool_);
  Term value = self;
  if (call.hasTensor("value")) {
    value = call.getStored("value");
    if (!call.canConvert(value, type))
      return failure();
    value = call.convert(value, type);
  } else {
    value = call.getConstant("value", type);
  }
  call.give(select(mask, value, self));
  return success();
}

ArrayRef<KernelRule> fsdp::getComparisonRules() {
  static constexpr KernelRule rules[] = {
      {"eq", framePointwise, emitCompare<Compared::Equal>},
      {"ne", framePointwise, emitCompare<Compared::Unequal>},
      {"lt", framePointwise, emitCompare<Compared::Less>},
      {"le", framePointwise, emitCompare<Compared::LessEqual>},
      {"gt", framePointwise, emitCompare<Compared::Greater>},
      {"ge", framePointwise, emitCompare<Compared::GreaterEqual>},
      {"logical_and", framePointwise, emitLogical<both>},
      {"logical_or", framePointwise, emitLogical<either>},
      {"logical_xor", framePointwise, emitLogical<oneOf>},
      {"logical_not", framePointwise, emitLogicalNot},
      {"bitwise_and", framePointwise, emitBitwise<both>},
      {"bitwise_or", framePointwise, emitBitwise<either>},
      {"bitwise_xor", framePointwise, emitBitwise<oneOf>},
      {"bitwise_not", framePointwise, emitBitwiseNot},
      {"isnan", framePointwise, emitIsNan},
      {"where", framePointwise, emitWhere},
      {"masked_fill", framePointwise, emitMaskedFill},
  };
  return rules;
}
