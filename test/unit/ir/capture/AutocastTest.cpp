//===- AutocastTest.cpp - Our autocast against LibTorch's -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For every operator that LibTorch's autocast knows, its kernel and ours are
// called with tensors of several dtypes; what they hand on to the operator
// itself is observed, and must be the same.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/joint/Autocast.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <gtest/gtest.h>

#include <optional>

using namespace fsdp::capture;
using at::Tensor;
using Stack = std::vector<c10::IValue>;
using DTypes = std::vector<at::ScalarType>;

namespace {

constexpr c10::DispatchKey observerKey =
    c10::DispatchKey::TESTING_ONLY_GenericMode;

/// The operator is reached: nothing is computed.
struct Reached : std::exception {
  DTypes dtypes;
};

thread_local const c10::OperatorHandle *target = nullptr;

void observe(const c10::OperatorHandle &op, Stack *stack) {
  c10::impl::ExcludeDispatchKeyGuard once(observerKey);
  if (!target || !(op.operator_name() == target->operator_name())) {
    op.callBoxed(*stack);
    return;
  }
  Reached reached;
  for (const c10::IValue &value : *stack) {
    if (value.isTensor() && value.toTensor().defined())
      reached.dtypes.push_back(value.toTensor().scalar_type());
    else if (value.isTensorList())
      for (const Tensor &tensor : value.toTensorVector())
        reached.dtypes.push_back(tensor.scalar_type());
  }
  throw reached;
}

/// Some argument for each of the schema's; empty if one is of a rare kind.
std::optional<Stack> makeArguments(const c10::FunctionSchema &schema,
                                   const DTypes &dtypes) {
  Stack stack;
  size_t next = 0;
  auto makeTensor = [&] {
    return at::ones({2, 2}, dtypes[next++ % dtypes.size()]);
  };
  for (const c10::Argument &argument : schema.arguments()) {
    c10::TypePtr type = argument.type();
    if (const auto *optional = type->castRaw<c10::OptionalType>()) {
      if (optional->getElementType()->kind() != c10::TypeKind::TensorType) {
        stack.emplace_back();
        continue;
      }
      type = optional->getElementType();
    }
    if (type->kind() == c10::TypeKind::TensorType) {
      stack.emplace_back(makeTensor());
    } else if (argument.default_value()) {
      stack.push_back(*argument.default_value());
    } else if (type->kind() == c10::TypeKind::FloatType) {
      stack.emplace_back(0.5);
    } else if (type->kind() == c10::TypeKind::BoolType) {
      stack.emplace_back(false);
    } else if (type->kind() == c10::TypeKind::StringType) {
      stack.emplace_back("valid");
    } else if (type->kind() == c10::TypeKind::NumberType ||
               type->kind() == c10::TypeKind::IntType ||
               type->kind() == c10::TypeKind::SymIntType) {
      stack.emplace_back(1);
    } else if (const auto *list = type->castRaw<c10::ListType>()) {
      c10::TypeKind element = list->getElementType()->kind();
      if (element == c10::TypeKind::TensorType)
        stack.emplace_back(std::vector<Tensor>{makeTensor(), makeTensor()});
      else if (element == c10::TypeKind::IntType ||
               element == c10::TypeKind::SymIntType)
        stack.emplace_back(std::vector<int64_t>{1, 1});
      else
        return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  return stack;
}

/// The dtypes that arrive at the operator behind the kernel for `key`; nothing
/// if the kernel refuses them.
std::optional<DTypes> getArriving(const c10::OperatorHandle &op,
                                  c10::DispatchKey key, Stack stack) {
  c10::impl::IncludeDispatchKeyGuard guard(observerKey);
  target = &op;
  std::optional<DTypes> dtypes;
  try {
    op.callBoxedForDispatchKey(key, stack);
  } catch (const Reached &reached) {
    dtypes = reached.dtypes;
  } catch (const c10::Error &) {
  }
  target = nullptr;
  return dtypes;
}

std::vector<c10::OperatorHandle> getOperators(c10::DispatchKey key) {
  std::vector<c10::OperatorHandle> operators;
  for (const c10::OperatorName &name :
       c10::Dispatcher::singleton().getAllOpNames())
    if (auto op = c10::Dispatcher::singleton().findSchema(name))
      if (op->hasKernelForDispatchKey(key))
        operators.push_back(*op);
  return operators;
}

/// LibTorch's own autocast for the CPU.
struct LibTorchAutocast {
  explicit LibTorchAutocast(at::ScalarType dtype) {
    at::autocast::set_autocast_dtype(at::kCPU, dtype);
    at::autocast::set_autocast_enabled(at::kCPU, true);
  }
  ~LibTorchAutocast() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  }
};

Tensor leaf(std::vector<int64_t> sizes) {
  return at::randn(sizes).set_requires_grad(true);
}

} // namespace

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&observe>());
}

TEST(Autocast, CastsOnTheCpuWhatLibTorchCasts) {
  const DTypes cases[] = {{at::kFloat},
                          {at::kBFloat16},
                          {at::kHalf},
                          {at::kDouble},
                          {at::kLong},
                          {at::kFloat, at::kBFloat16},
                          {at::kBFloat16, at::kFloat},
                          {at::kBFloat16, at::kDouble},
                          {at::kBFloat16, at::kHalf},
                          {at::kLong, at::kFloat, at::kBFloat16}};
  std::vector<c10::OperatorHandle> operators =
      getOperators(c10::DispatchKey::AutocastCPU);
  EXPECT_GT(operators.size(), 100u);
  size_t compared = 0;
  for (const c10::OperatorHandle &op : operators) {
    EXPECT_NE(getCastPolicy(op, at::kCPU), CastPolicy::None)
        << op.operator_name();
    // Dims by name, for which no argument is made here.
    if (op.operator_name().overload_name.ends_with("imname"))
      continue;
    for (at::ScalarType lower : {at::kBFloat16, at::kHalf})
      for (const DTypes &dtypes : cases) {
        std::optional<Stack> stack = makeArguments(op.schema(), dtypes);
        if (!stack)
          continue;
        std::optional<DTypes> expected, found;
        {
          LibTorchAutocast theirs(lower);
          expected = getArriving(op, c10::DispatchKey::AutocastCPU, *stack);
        }
        {
          AutocastScope ours(at::kCPU, lower, true);
          found = getArriving(op, kAutocastKey, *stack);
        }
        EXPECT_EQ(found, expected)
            << op.operator_name() << " to " << lower << " of "
            << at::ArrayRef<at::ScalarType>(dtypes);
        compared += expected.has_value();
      }
  }
  EXPECT_GT(compared, operators.size() * 15);
}

TEST(Autocast, KnowsTheOperatorsOfCuda) {
  // Those of cuDNN alone, which no exported model calls.
  const std::vector<std::string> others = {"aten::cudnn_convolution",
                                           "aten::cudnn_convolution_transpose",
                                           "aten::_cudnn_rnn"};
  std::vector<c10::OperatorHandle> operators =
      getOperators(c10::DispatchKey::AutocastCUDA);
  EXPECT_GT(operators.size(), 100u);
  for (const c10::OperatorHandle &op : operators)
    EXPECT_NE(getCastPolicy(op, at::kCUDA) == CastPolicy::None,
              std::find(others.begin(), others.end(),
                        op.operator_name().name) == others.end())
        << op.operator_name();
  for (const auto &name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name != "aten::relu" && name.name != "aten::cat")
      continue;
    c10::OperatorHandle op = *c10::Dispatcher::singleton().findSchema(name);
    EXPECT_EQ(getCastPolicy(op, at::kCUDA), CastPolicy::None) << name;
  }
}

TEST(Autocast, SumsInFloatOnCuda) {
  Tensor half = at::ones({2, 3}, at::kHalf);
  AutocastScope scope(at::kCUDA, at::kHalf, true);
  EXPECT_EQ(at::mm(half, at::ones({3, 2})).scalar_type(), at::kHalf);
  EXPECT_EQ(at::exp(half).scalar_type(), at::kFloat);
  EXPECT_EQ(at::sum(half).scalar_type(), at::kFloat);
  EXPECT_EQ(at::softmax(half, 0).scalar_type(), at::kFloat);
  EXPECT_EQ(at::sum(half, at::kDouble).scalar_type(), at::kDouble);
  EXPECT_EQ(at::norm(half).scalar_type(), at::kFloat);
  EXPECT_EQ(at::norm(half, 2, {0}).scalar_type(), at::kFloat);
  EXPECT_EQ(at::norm(half.to(at::kDouble)).scalar_type(), at::kDouble);
  EXPECT_EQ(at::dot(half[0], at::ones(3)).scalar_type(), at::kFloat);
  EXPECT_EQ(at::add(half, half).scalar_type(), at::kHalf);
  EXPECT_THROW(at::binary_cross_entropy(half, half), c10::Error);
}

TEST(Autocast, CountsTheInnermostScope) {
  Tensor x = at::ones({2, 2});
  auto dtype = [&] { return at::mm(x, x).scalar_type(); };
  EXPECT_EQ(dtype(), at::kFloat);
  {
    AutocastScope outer(at::kCPU, at::kBFloat16, true);
    EXPECT_EQ(dtype(), at::kBFloat16);
    {
      AutocastScope off(at::kCPU, at::kBFloat16, false);
      EXPECT_EQ(dtype(), at::kFloat);
      AutocastScope half(at::kCPU, at::kHalf, true);
      EXPECT_EQ(dtype(), at::kHalf);
    }
    // Off for another device leaves it on.
    AutocastScope other(at::kCUDA, at::kHalf, false);
    EXPECT_EQ(dtype(), at::kBFloat16);
  }
  EXPECT_EQ(dtype(), at::kFloat);
}

TEST(Autocast, GivesLibTorchsGradients) {
  at::globalContext().setDeterministicAlgorithms(true, true);
  Tensor x = at::randn({4, 6}), w = leaf({6, 6}), b = leaf({6}),
         s = leaf({4, 6});
  auto run = [&] {
    // The weight is used twice: its gradients meet in the lower dtype.
    Tensor h = at::linear(x, w, b).relu();
    h = at::linear(h, w, b);
    Tensor loss = at::mse_loss(at::cat({h, s}), at::ones({8, 6}));
    return torch::autograd::grad({loss}, {w, b, s});
  };
  std::vector<Tensor> expected, found;
  {
    LibTorchAutocast theirs(at::kBFloat16);
    expected = run();
  }
  {
    AutocastScope ours(at::kCPU, at::kBFloat16, true);
    found = run();
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found[i].scalar_type(), at::kFloat);
    EXPECT_TRUE(found[i].equal(expected[i])) << "gradient " << i;
  }
}
