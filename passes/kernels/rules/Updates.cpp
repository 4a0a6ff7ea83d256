//===- Updates.cpp - Updates of parameters --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In the order of LibTorch's fused kernels (FusedAdamKernel.cpp,
// FusedSGDKernel.cpp).
//
//===----------------------------------------------------------------------===//

#include "passes/kernels/Updates.h"

using namespace mlir;
using namespace fsdp;
using Number = OptimizerNumber;

//===----------------------------------------------------------------------===//
// Rates
//===----------------------------------------------------------------------===//

namespace {

/// Numbers that are computed once a step, in f64.
class Rates {
public:
  Rates(UpdateOp op, TensorOps &ops) : op(op), ops(ops) {
    readNumbers(op.getNumbers(), own);
    wide = ops.get().getF64Type();
  }

  double operator[](Number number) const { return own[number]; }
  Value givenLr() { return op.getLr(); }
  Value lr() { return ops.cast(op.getLr(), wide); }
  /// base ^ step.
  Value power(double base) {
    return make("aten.pow.Scalar", ops.cast(op.getStep(), wide), "self", base);
  }
  /// 1 - a.
  Value complement(Value a) { return make("aten.rsub.Scalar", a, "other", 1); }
  Value multiply(Value a, double b) {
    return make("aten.mul.Scalar", a, "other", b);
  }
  Value divide(Value a, Value b) { return ops.divide(a, b); }
  Value root(Value a) {
    return ops.make("aten.sqrt", {a}, {}, cast<RankedTensorType>(a.getType()));
  }
  Value round(Value a) { return ops.cast(a, ops.get().getF32Type()); }

private:
  Value make(StringRef name, Value a, StringRef argument, double number) {
    return ops.make(
        name, {a},
        {ops.get().getNamedAttr(argument, ops.get().getF64FloatAttr(number))},
        cast<RankedTensorType>(a.getType()));
  }

  UpdateOp op;
  TensorOps &ops;
  OptimizerNumbers own;
  Type wide;
};

} // namespace

static void addAdamRates(Rates &rates, SmallVectorImpl<Value> &all) {
  Value first = rates.complement(rates.power(rates[Number::beta1]));
  Value second = rates.complement(rates.power(rates[Number::beta2]));
  all.push_back(rates.round(rates.divide(rates.lr(), first)));
  all.push_back(rates.round(rates.root(second)));
}

static void addAdamWRates(Rates &rates, SmallVectorImpl<Value> &all) {
  addAdamRates(rates, all);
  Value decay = rates.multiply(rates.lr(), rates[Number::weight_decay]);
  all.push_back(rates.round(rates.complement(decay)));
}

static void addSgdRates(Rates &rates, SmallVectorImpl<Value> &all) {
  all.push_back(rates.givenLr());
}

//===----------------------------------------------------------------------===//
// Formulas
//===----------------------------------------------------------------------===//

namespace {

/// One element's values while it is updated.
class Element {
public:
  explicit Element(KernelCall &call) : call(call) {
    readNumbers(cast<UpdateOp>(call.op).getNumbers(), own);
    param = call.getStored("param");
    grad = call.getStored("grad");
    moments = call.getStoredList("moment");
    rates = call.getStoredList("rate");
    if (call.hasTensor("grad_scale"))
      grad = grad / call.getStored("grad_scale");
  }

  double operator[](Number number) const { return own[number]; }
  Term number(double value) const { return call.number(value); }

  /// Leaves what it is now, or all as it was where an infinity was found.
  void give() {
    keep(call.getStored("param"), param);
    for (auto [before, now] :
         llvm::zip_equal(call.getStoredList("moment"), moments))
      keep(before, now);
  }

  Term param, grad;
  SmallVector<Term> moments, rates;

private:
  void keep(Term before, Term now) {
    call.give(call.hasTensor("found_inf")
                  ? select(call.getStored("found_inf") == 1, before, now)
                  : now);
  }

  KernelCall &call;
  OptimizerNumbers own;
};

} // namespace

static void updateAdam(Element &x) {
  Term &first = x.moments[0], &second = x.moments[1];
  auto part = static_cast<float>(1 - x[Number::beta1]);
  Term way = x.grad - first;
  first = part < 0.5f ? fma(x.number(part), way, first)
                      : fma(x.number(part - 1.0f), way, x.grad);
  second = fma(x.number(1 - x[Number::beta2]) * x.grad, x.grad,
               second * x[Number::beta2]);
  Term divisor = sqrt(second) / x.rates[1] + x[Number::eps];
  x.param = x.param + -x.rates[0] * first / divisor;
}

static void emitAdam(Element &x) {
  if (x[Number::weight_decay] != 0)
    x.grad = fma(x.param, x.number(x[Number::weight_decay]), x.grad);
  updateAdam(x);
}

static void emitAdamW(Element &x) {
  if (x[Number::weight_decay] != 0)
    x.param = x.param * x.rates[2];
  updateAdam(x);
}

static void emitSgd(Element &x) {
  if (x[Number::weight_decay] != 0)
    x.grad = fma(x.param, x.number(x[Number::weight_decay]), x.grad);
  if (!x.moments.empty()) {
    Term momentum = x.number(x[Number::momentum]);
    x.moments[0] = x.moments[0] * momentum + x.grad;
    x.grad = x[Number::nesterov] != 0 ? fma(x.moments[0], momentum, x.grad)
                                      : x.moments[0];
  }
  x.param = fma(-x.rates[0], x.grad, x.param);
}

//===----------------------------------------------------------------------===//
// The rule
//===----------------------------------------------------------------------===//

namespace {
struct UpdateFormula {
  OptimizerKind kind;
  void (*addRates)(Rates &, SmallVectorImpl<Value> &);
  void (*emit)(Element &);
};
} // namespace

/// Null for kinds that kernels do not know.
static const UpdateFormula *findFormula(OptimizerKind kind) {
  static constexpr UpdateFormula formulas[] = {
      {OptimizerKind::adamw, addAdamWRates, emitAdamW},
      {OptimizerKind::adam, addAdamRates, emitAdam},
      {OptimizerKind::sgd, addSgdRates, emitSgd},
  };
  const auto *it = llvm::find_if(
      formulas, [&](const UpdateFormula &each) { return each.kind == kind; });
  return it == std::end(formulas) ? nullptr : it;
}

bool fsdp::canBeOfKernel(UpdateOp op) {
  auto isF32 = [](Value value) {
    return !value || getElementTypeOrSelf(value.getType()).isF32();
  };
  return findFormula(op.getKind()) && isF32(op.getGradScale()) &&
         isF32(op.getFoundInf());
}

SmallVector<Value> fsdp::buildRates(UpdateOp op, TensorOps &ops) {
  Rates rates(op, ops);
  SmallVector<Value> all;
  findFormula(op.getKind())->addRates(rates, all);
  return all;
}

SmallVector<Value> fsdp::getOperandsOf(UpdateOp op, unsigned param) {
  SmallVector<Value> all{op.getParams()[param], op.getGrads()[param]};
  for (size_t i = param; i < op.getMoments().size(); i += op.getParams().size())
    all.push_back(op.getMoments()[i]);
  return all;
}

SmallVector<StringRef> fsdp::nameOperands(UpdateOp op) {
  SmallVector<StringRef> names{"param", "grad"};
  names.append(op.getMoments().size(), "moment");
  for (auto [name, value] : {std::pair<StringRef, Value>("step", op.getStep()),
                             {"lr", op.getLr()},
                             {"grad_scale", op.getGradScale()},
                             {"found_inf", op.getFoundInf()}})
    if (value)
      names.push_back(name);
  names.append(op.getRates().size(), "rate");
  return names;
}

const KernelRule &fsdp::getUpdateRule() {
  static constexpr KernelRule rule = {
      "update", framePointwise, [](KernelCall &call) -> LogicalResult {
        auto op = cast<UpdateOp>(call.op);
        const UpdateFormula *formula = findFormula(op.getKind());
        if (!formula)
          return failure();
        Element element(call);
        formula->emit(element);
        element.give();
        return success();
      }};
  return rule;
}
