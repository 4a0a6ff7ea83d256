//===- Builder.cpp - Writes a kernel's program ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/Builder.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"

#include <bit>

using namespace fsdp;
using llvm::APFloat;
using llvm::ArrayRef;
using plan::DType;
using plan::KernelOpT;

KernelValue KernelBuilder::infer(KernelOpKind kind, ArrayRef<Term> args,
                                 ArrayRef<int64_t> integers) const {
  const KernelOpFacts &facts = getFacts(kind);
  KernelType type = facts.result == 'f'   ? KernelType::f32
                    : facts.result == 'i' ? KernelType::i64
                    : facts.result == 'b' ? KernelType::boolean
                    : args.empty()        ? KernelType::f32 /* load() says */
                                          : get(args.back()).type;
  uint64_t columns = kind == KernelOpKind::cat ? 0 : 1;
  for (Term arg : args)
    columns = kind == KernelOpKind::cat ? columns + get(arg).columns
                                        : std::max(columns, get(arg).columns);
  switch (kind) {
  case KernelOpKind::sum_columns:
  case KernelOpKind::max_columns:
    return {type, 1};
  case KernelOpKind::column:
  case KernelOpKind::slice:
  case KernelOpKind::repeat:
    return {type, static_cast<uint64_t>(integers.back())};
  default:
    return {type, columns};
  }
}

static bool isNumberOf(const llvm::fltSemantics &semantics, double value) {
  APFloat number(value);
  bool loses = false;
  number.convert(semantics, APFloat::rmNearestTiesToEven, &loses);
  return !loses;
}

bool KernelBuilder::isExact(const KernelOpT &op, DType dtype) const {
  auto isOf = [&](uint32_t arg) {
    return values[arg].type != KernelType::f32 ||
           (dtype == DType::bf16 ? exact[arg].first : exact[arg].second);
  };
  switch (kindOf(op)) {
  case KernelOpKind::constant:
    return isNumberOf(dtype == DType::bf16 ? APFloat::BFloat()
                                           : APFloat::IEEEhalf(),
                      op.number);
  case KernelOpKind::round_bf16:
    return dtype == DType::bf16;
  case KernelOpKind::round_f16:
    return dtype == DType::f16;
  case KernelOpKind::slice:
  case KernelOpKind::cat:
  case KernelOpKind::repeat:
  case KernelOpKind::neg:
  case KernelOpKind::abs:
  case KernelOpKind::maximum:
  case KernelOpKind::minimum:
  case KernelOpKind::max_columns:
  case KernelOpKind::select:
    return llvm::all_of(op.args, isOf);
  default:
    return false;
  }
}

Term KernelBuilder::append(KernelOpKind kind, ArrayRef<Term> args,
                           ArrayRef<int64_t> integers, double number) {
  auto op = std::make_unique<KernelOpT>();
  op->kind = static_cast<uint8_t>(kind);
  for (Term arg : args)
    op->args.push_back(arg.index);
  op->integers.assign(integers.begin(), integers.end());
  op->number = number;
  auto index = static_cast<uint32_t>(ops.size());
  auto [it, isNew] = known.try_emplace(
      Key{op->kind, op->args, op->integers, std::bit_cast<uint64_t>(number)},
      index);
  if (!isNew)
    return {this, it->second};
  values.push_back(infer(kind, args, integers));
  exact.emplace_back(isExact(*op, DType::bf16), isExact(*op, DType::f16));
  ops.push_back(std::move(op));
  return {this, index};
}

Term KernelBuilder::load(int64_t operand, DType dtype, int64_t columns) {
  Term term = append(KernelOpKind::load, {}, {operand});
  bool isBool = dtype == DType::bool_;
  bool isNumber =
      dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
  values[term.index] = {isBool     ? KernelType::boolean
                        : isNumber ? KernelType::f32
                                   : KernelType::i64,
                        static_cast<uint64_t>(columns)};
  exact[term.index] = {dtype == DType::bf16, dtype == DType::f16};
  return term;
}

Term KernelBuilder::number(double value) {
  // As it will be: a plan's number becomes f32.
  return append(KernelOpKind::constant, {}, {}, static_cast<float>(value));
}

Term KernelBuilder::integer(int64_t value) {
  return append(KernelOpKind::integer, {}, {value});
}

Term KernelBuilder::truth(bool value) {
  return append(KernelOpKind::equal_integers, {integer(0), integer(!value)});
}

Term KernelBuilder::spread(Term term, int64_t columns) {
  if (get(term).columns == static_cast<uint64_t>(columns))
    return term;
  return append(KernelOpKind::repeat, {term}, {columns});
}

Term KernelBuilder::round(Term term, DType dtype) {
  if (get(term).type != KernelType::f32)
    return term;
  auto [isBf16, isF16] = exact[term.index];
  if (dtype == DType::bf16 && !isBf16)
    return append(KernelOpKind::round_bf16, {term});
  if (dtype == DType::f16 && !isF16)
    return append(KernelOpKind::round_f16, {term});
  return term;
}

//===----------------------------------------------------------------------===//
// Formulas
//===----------------------------------------------------------------------===//

Term fsdp::apply(KernelOpKind kind, Term a) {
  return a.builder->append(kind, {a});
}
Term fsdp::apply(KernelOpKind kind, Term a, Term b) {
  return a.builder->append(kind, {a, b});
}
Term fsdp::fma(Term a, Term b, Term c) {
  return a.builder->append(KernelOpKind::fma, {a, b, c});
}
Term fsdp::select(Term which, Term a, Term b) {
  return which.builder->append(KernelOpKind::select, {which, a, b});
}

#define FSDP_TERM_OPERATOR(symbol, kind)                                       \
  Term fsdp::operator symbol(Term a, Term b) {                                 \
    return apply(KernelOpKind::kind, a, b);                                    \
  }
#define FSDP_TERM_OPERATORS(symbol, kind)                                      \
  FSDP_TERM_OPERATOR(symbol, kind)                                             \
  Term fsdp::operator symbol(Term a, double b) {                               \
    return a symbol a.builder->number(b);                                      \
  }
#define FSDP_TERM_ARITHMETIC(symbol, kind)                                     \
  FSDP_TERM_OPERATORS(symbol, kind)                                            \
  Term fsdp::operator symbol(double a, Term b) {                               \
    return b.builder->number(a) symbol b;                                      \
  }
FSDP_TERM_ARITHMETIC(+, add)
FSDP_TERM_ARITHMETIC(-, sub)
FSDP_TERM_ARITHMETIC(*, mul)
FSDP_TERM_ARITHMETIC(/, div)
FSDP_TERM_OPERATORS(<, less)
FSDP_TERM_OPERATORS(<=, less_equal)
FSDP_TERM_OPERATORS(==, equal)
FSDP_TERM_OPERATOR(&, logical_and)
FSDP_TERM_OPERATOR(|, logical_or)
FSDP_TERM_OPERATOR(^, logical_xor)
#undef FSDP_TERM_OPERATOR
#undef FSDP_TERM_OPERATORS
#undef FSDP_TERM_ARITHMETIC

Term fsdp::operator-(Term a) { return apply(KernelOpKind::neg, a); }
Term fsdp::operator!(Term a) { return apply(KernelOpKind::logical_not, a); }
