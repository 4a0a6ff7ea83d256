//===- Builder.h - Writes a kernel's program --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Terms are what operations of a program give. Written as formulas, these
// become its operations, one each, in their order: nothing is simplified, but
// equal ones are one.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_BUILDER_H
#define FSDP_PASSES_KERNELS_BUILDER_H

#include "plan/Kernels.h"

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"

#include <map>
#include <memory>
#include <tuple>
#include <vector>

namespace fsdp {

class KernelBuilder;

/// An operation of the builder, which has to outlive it.
struct Term {
  KernelBuilder *builder = nullptr;
  uint32_t index = 0;
};

class KernelBuilder {
public:
  Term append(KernelOpKind kind, llvm::ArrayRef<Term> args,
              llvm::ArrayRef<int64_t> integers = {}, double number = 0);
  /// Reads the operand of that number.
  Term load(int64_t operand, plan::DType dtype, int64_t columns);
  Term number(double value);
  Term integer(int64_t value);
  Term truth(bool value);

  const KernelValue &get(Term term) const { return values[term.index]; }
  /// The term as one of `columns`, each its only column if it has one.
  Term spread(Term term, int64_t columns);
  /// The nearest numbers of a type that are f32 inside; itself if they are.
  Term round(Term term, plan::DType dtype);

  std::vector<std::unique_ptr<plan::KernelOpT>> takeOps() {
    return std::move(ops);
  }

private:
  KernelValue infer(KernelOpKind kind, llvm::ArrayRef<Term> args,
                    llvm::ArrayRef<int64_t> integers) const;
  bool isExact(const plan::KernelOpT &op, plan::DType dtype) const;

  using Key = std::tuple<uint8_t, std::vector<uint32_t>, std::vector<int64_t>,
                         uint64_t>;
  std::map<Key, uint32_t> known;
  std::vector<std::unique_ptr<plan::KernelOpT>> ops;
  std::vector<KernelValue> values;
  /// Whether all of its numbers are those of bf16, and of f16.
  std::vector<std::pair<bool, bool>> exact;
};

// f32, but for truths.
Term operator+(Term a, Term b);
Term operator-(Term a, Term b);
Term operator*(Term a, Term b);
Term operator/(Term a, Term b);
Term operator+(Term a, double b);
Term operator+(double a, Term b);
Term operator-(Term a, double b);
Term operator-(double a, Term b);
Term operator*(Term a, double b);
Term operator*(double a, Term b);
Term operator/(Term a, double b);
Term operator/(double a, Term b);
Term operator-(Term a);
Term operator<(Term a, Term b);
Term operator<=(Term a, Term b);
Term operator==(Term a, Term b);
Term operator<(Term a, double b);
Term operator<=(Term a, double b);
Term operator==(Term a, double b);
Term operator&(Term a, Term b);
Term operator|(Term a, Term b);
Term operator^(Term a, Term b);
Term operator!(Term a);
/// a * b + c, rounded once.
Term fma(Term a, Term b, Term c);
Term select(Term which, Term a, Term b);
Term apply(KernelOpKind kind, Term a);
Term apply(KernelOpKind kind, Term a, Term b);
inline Term exp(Term a) { return apply(KernelOpKind::exp, a); }
inline Term log(Term a) { return apply(KernelOpKind::log, a); }
inline Term tanh(Term a) { return apply(KernelOpKind::tanh, a); }
inline Term sqrt(Term a) { return apply(KernelOpKind::sqrt, a); }
inline Term erf(Term a) { return apply(KernelOpKind::erf, a); }
inline Term abs(Term a) { return apply(KernelOpKind::abs, a); }
inline Term maximum(Term a, Term b) {
  return apply(KernelOpKind::maximum, a, b);
}
inline Term minimum(Term a, Term b) {
  return apply(KernelOpKind::minimum, a, b);
}

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_BUILDER_H
