//===- UpdateTest.cpp - Updates of parameters -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "KernelGraph.h"
#include "Samples.h"

#include "ir/fsdp/Fsdp.h"

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/scalar_tensor.h>

#include <gtest/gtest.h>

#include <cmath>

using namespace fsdp;
using namespace fsdp::test;
using Number = OptimizerNumber;

namespace {

struct Case {
  const char *text;
  OptimizerKind kind;
  OptimizerNumbers numbers;
  bool scales = false, mayStay = false;
  double found = 0;
};

void PrintTo(const Case &each, std::ostream *out) { *out << each.text; }

/// A parameter, its gradient and moments, and what LibTorch makes of them.
class UpdateTest : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    for (size_t i = 0; i < countMoments(); ++i)
      moments.push_back(sample(kSizes, at::kFloat).abs());
  }

  size_t countMoments() const {
    return getFacts(GetParam().kind).getMoments(GetParam().numbers).size();
  }
  double number(Number number) const { return GetParam().numbers[number]; }

  /// The parameter, then the moments.
  std::vector<at::Tensor> updateByLibTorch() {
    at::Tensor param = this->param.clone(), grad = this->grad.clone();
    std::vector<at::Tensor> now;
    for (const at::Tensor &moment : moments)
      now.push_back(moment.clone());
    std::optional<at::Tensor> divisor, inf;
    if (GetParam().scales)
      divisor = scale;
    if (GetParam().mayStay)
      inf = at::scalar_tensor(GetParam().found, at::kFloat);
    at::Tensor rate = at::scalar_tensor(lr, at::kFloat);
    at::Tensor count = at::scalar_tensor(step, at::kFloat);
    auto adam = [&](auto update) {
      update(at::TensorList(param), at::TensorList(grad),
             at::TensorList(now[0]), at::TensorList(now[1]), at::TensorList(),
             at::TensorList(count), rate, number(Number::beta1),
             number(Number::beta2), number(Number::weight_decay),
             number(Number::eps), false, false, divisor, inf);
    };
    switch (GetParam().kind) {
    case OptimizerKind::sgd:
      at::_fused_sgd_({param}, {grad}, now, number(Number::weight_decay),
                      number(Number::momentum), rate, 0,
                      number(Number::nesterov) != 0, false, false, divisor,
                      inf);
      break;
    case OptimizerKind::adam:
      adam([](auto... all) { at::_fused_adam_(all...); });
      break;
    case OptimizerKind::adamw:
      adam([](auto... all) { at::_fused_adamw_(all...); });
    }
    now.insert(now.begin(), param);
    return now;
  }

  std::vector<double> getRates() const {
    double rate = static_cast<float>(lr);
    if (GetParam().kind == OptimizerKind::sgd)
      return {rate};
    return {rate / (1 - std::pow(number(Number::beta1), step)),
            std::sqrt(1 - std::pow(number(Number::beta2), step)),
            1 - rate * number(Number::weight_decay)};
  }

  const Sizes kSizes{8,
                     64}; // whole vectors: LibTorch rounds the rest otherwise
  const double lr = 3e-3, step = 3;
  at::Tensor param = sample(kSizes, at::kFloat);
  at::Tensor grad = sample(kSizes, at::kFloat);
  at::Tensor scale = at::scalar_tensor(1.7, at::kFloat);
  std::vector<at::Tensor> moments;
};

TEST_P(UpdateTest, GivesWhatLibTorchGives) {
  KernelGraph graph;
  auto scalar = [&](double value) {
    return graph.input(at::scalar_tensor(value, at::kFloat)).value;
  };
  llvm::SmallVector<mlir::Value> old, rates;
  for (const at::Tensor &moment : moments)
    old.push_back(graph.input(moment).value);
  for (double rate : getRates())
    rates.push_back(scalar(rate));
  mlir::Value before = graph.input(param).value;
  mlir::Value divisor =
      GetParam().scales ? graph.input(scale).value : mlir::Value();
  mlir::Value inf =
      GetParam().mayStay ? scalar(GetParam().found) : mlir::Value();
  mlir::MLIRContext *context = before.getContext();
  mlir::ValueRange kept(old);
  std::vector<Node> updated = graph.add<UpdateOp>(
      updateByLibTorch(), mlir::TypeRange(before.getType()), kept.getTypes(),
      mlir::TypeRange(), OptimizerKindAttr::get(context, GetParam().kind),
      before, graph.input(grad).value, kept, mlir::ValueRange(), mlir::Value(),
      scalar(step), scalar(lr), divisor, inf, rates,
      getNumbers(context, GetParam().kind, GetParam().numbers),
      mlir::IntegerAttr());
  expectSame(graph, updated);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, UpdateTest,
    testing::Values(
        Case{"adamw",
             OptimizerKind::adamw,
             {{Number::beta1, 0.9},
              {Number::beta2, 0.999},
              {Number::eps, 1e-8},
              {Number::weight_decay, 0.1}}},
        Case{"adamw, scaled, near its end",
             OptimizerKind::adamw,
             {{Number::beta1, 0.3}, {Number::beta2, 0.95}, {Number::eps, 1e-6}},
             true,
             true},
        Case{"adamw, stays",
             OptimizerKind::adamw,
             {{Number::beta1, 0.9}, {Number::beta2, 0.95}},
             true,
             true,
             1},
        Case{"adam, decay",
             OptimizerKind::adam,
             {{Number::beta1, 0.9},
              {Number::beta2, 0.99},
              {Number::eps, 1e-8},
              {Number::weight_decay, 0.1}}},
        Case{"sgd", OptimizerKind::sgd, {}},
        Case{"sgd, decay, momentum",
             OptimizerKind::sgd,
             {{Number::momentum, 0.9}, {Number::weight_decay, 0.1}}},
        Case{"sgd, nesterov, scaled",
             OptimizerKind::sgd,
             {{Number::momentum, 0.9}, {Number::nesterov, 1}},
             true,
             true}));

} // namespace
