//===- CounterDraws.cpp - LibTorch with the program's random numbers ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/CounterDraws.h"

#include "ir/capture/joint/Draws.h"
#include "runtime/random/Sampling.h"

#include <ATen/core/List.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/tensor.h>
#include <torch/library.h>

#include <stdexcept>

using namespace fsdp;
using namespace fsdp::capture;
using torch::jit::Stack;

static at::Tensor randomState = at::empty_strided({2}, {1}, at::kLong);
static int64_t nextSite = 0;

void fsdp::capture::beginDraws(int64_t seed) {
  randomState = at::tensor({seed, int64_t(0)}, at::kLong);
  nextSite = 0;
}

namespace {

plan::Distribution findDistribution(std::string_view name) {
  for (plan::Distribution each : plan::EnumValuesDistribution())
    if (name == plan::EnumNameDistribution(each))
      return each;
  throw std::runtime_error("no distribution of that name");
}

at::Tensor draw(const at::Tensor &state, at::TensorList given,
                std::string_view distribution, c10::ArrayRef<double> numbers,
                at::IntArrayRef range, int64_t site, at::IntArrayRef sizes,
                at::IntArrayRef strides, at::ScalarType dtype) {
  at::Tensor output = at::empty_strided(sizes, strides, dtype);
  const auto *words = state.data_ptr<int64_t>();
  sample(
      {findDistribution(distribution), numbers.vec(), range.vec(), given.vec()},
      RandomSequence(words[0], words[1], /*rank=*/0,
                     static_cast<uint32_t>(site)),
      output);
  return output;
}

void callDefinition(const c10::OperatorHandle &op, Stack *stack) {
  callDrawDefinition(op, *stack, [](const Draw &each) {
    return draw(randomState, each.given, each.distribution, each.numbers,
                each.range, nextSite++, each.sizes, each.strides, each.dtype);
  });
}

/// Writes what the functional variant draws.
void callInPlace(const c10::OperatorHandle &op, Stack *stack) {
  at::Tensor self =
      (*stack)[stack->size() - op.schema().arguments().size()].toTensor();
  std::string name = op.operator_name().name;
  name.pop_back();
  std::string overload = op.operator_name().overload_name;
  if (name == "aten::normal")
    name += "_functional";
  if (name == "aten::bernoulli" && overload == "float")
    overload = "p";
  callDefinition(c10::Dispatcher::singleton().findSchemaOrThrow(
                     name.c_str(), overload.c_str()),
                 stack);
  stack->back() = self.copy_(stack->back().toTensor());
}

/// Writes the noise, its second argument, which the backward reads.
void callRrelu(const c10::OperatorHandle &op, Stack *stack) {
  at::Tensor noise =
      (*stack)[stack->size() - op.schema().arguments().size() + 1].toTensor();
  callDefinition(c10::Dispatcher::singleton().findSchemaOrThrow(
                     "aten::rrelu_with_noise_functional", ""),
                 stack);
  noise.copy_(stack->back().toTensor());
  stack->pop_back();
}

template <auto function>
torch::CppFunction boxed() {
  return torch::CppFunction::makeFromBoxedFunction<function>();
}

} // namespace

TORCH_LIBRARY_IMPL(fsdp, CPU, m) { m.impl("draw", draw); }

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  for (const char *name :
       {"bernoulli_.float", "bernoulli_.Tensor", "uniform_", "normal_",
        "exponential_", "cauchy_", "log_normal_", "geometric_", "random_",
        "random_.from", "random_.to"})
    m.impl(name, boxed<&callInPlace>());
  for (const char *name :
       {"native_dropout", "poisson", "binomial", "_standard_gamma",
        "_sample_dirichlet", "multinomial", "normal.Tensor_float",
        "normal.float_Tensor", "normal.Tensor_Tensor"})
    m.impl(name, boxed<&callDefinition>());
  m.impl("rrelu_with_noise", boxed<&callRrelu>());
}
