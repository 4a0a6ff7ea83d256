//===- MetaKernelsTest.cpp - Meta kernels against the CPU's ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every operator runs on real CPU tensors and on meta tensors of the same
// sizes and strides; the results must agree in sizes, strides and dtype, and
// the gradients that autograd computes through them in sizes and dtype.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/OutVariants.h"
#include "test/unit/ir/capture/meta/Cases.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/ones_like.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>

#include <gtest/gtest.h>

#include <set>
#include <sstream>

using namespace fsdp::meta::test;

namespace {

struct Family {
  const char *name;
  std::vector<Case> (*cases)();
};

constexpr Family families[] = {
    {"Attention", attentions},
    {"Convolution", convolutions},
    {"Embedding", embeddings},
    {"FakeQuantization", fakeQuantizations},
    {"Fft", fourierTransforms},
    {"Indexing", indexing},
    {"LinearAlgebra", linearAlgebra},
    {"Losses", losses},
    {"Matrix", matrices},
    {"Normalization", normalizations},
    {"Padding", padding},
    {"Pointwise", pointwiseOps},
    {"Pooling", pooling},
    {"Reductions", reductions},
    {"Segments", segments},
    {"Sorting", sorting},
};

Tensor toMeta(const Tensor &tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(),
                           tensor.options().device(at::kMeta));
}

/// The same arguments without data; `leaves`, those to differentiate by, become
/// leaves again.
IValue toMeta(const IValue &value) {
  if (value.isTensor() && value.toTensor().defined())
    return toMeta(value.toTensor())
        .requires_grad_(value.toTensor().requires_grad());
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor &tensor : value.toTensorVector())
      list.push_back(toMeta(tensor));
    return list;
  }
  if (value.isDevice())
    return at::Device(at::kMeta);
  return value;
}

Stack toMeta(const Stack &stack) {
  Stack result;
  for (const IValue &value : stack)
    result.push_back(toMeta(value));
  return result;
}

std::string describe(const Tensor &tensor, bool strides) {
  if (!tensor.defined())
    return "undefined";
  std::ostringstream text;
  text << tensor.scalar_type() << tensor.sizes();
  if (strides)
    text << " strides " << tensor.strides();
  return text.str();
}

/// Tensors in order, those of lists too.
std::vector<Tensor> tensorsOf(const Stack &stack) {
  std::vector<Tensor> tensors;
  for (const IValue &value : stack) {
    if (value.isTensor())
      tensors.push_back(value.toTensor());
    if (value.isTensorList())
      for (const Tensor &tensor : value.toTensorVector())
        tensors.push_back(tensor);
  }
  return tensors;
}

void expectSame(const std::vector<Tensor> &got, const std::vector<Tensor> &want,
                const std::string &what, bool strides = true) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(describe(got[i], strides), describe(want[i], strides))
        << what << " " << i;
}

/// Runs `function`; if LibTorch refuses, returns false and why.
template <typename Function>
bool accepts(Function function, std::string *why = nullptr) {
  try {
    function();
    return true;
  } catch (const c10::Error &error) {
    if (why)
      *why = error.what_without_backtrace();
    return false;
  }
}

/// True if the CPU takes these arguments.
bool compareForward(const Case &test, const Maker &maker) {
  Stack arguments;
  std::vector<Tensor> want;
  if (!accepts([&] {
        arguments = test.make(maker);
        want = tensorsOf(call(test.op, arguments));
      }))
    return false;
  std::string what = std::string(test.op) + ", " + maker.describe();
  std::string why;
  std::vector<Tensor> got;
  bool taken =
      accepts([&] { got = tensorsOf(call(test.op, toMeta(arguments))); }, &why);
  EXPECT_EQ(taken, !test.refused) << what << ": " << why;
  if (test.refused) {
    EXPECT_NE(why.find(test.refused), std::string::npos) << what << ": " << why;
  }
  if (why.empty())
    expectSame(got, want, what + ", result");
  return true;
}

/// Gradients of the sum of all floating results.
std::vector<Tensor> differentiate(const std::string &op,
                                  const Stack &arguments) {
  at::AutoGradMode mode(true);
  std::vector<Tensor> leaves, roots, ones;
  for (const Tensor &tensor : tensorsOf(arguments))
    if (tensor.defined() && tensor.requires_grad())
      leaves.push_back(tensor);
  for (const Tensor &tensor : tensorsOf(call(op, arguments)))
    if (tensor.defined() && tensor.requires_grad()) {
      roots.push_back(tensor);
      ones.push_back(at::ones_like(tensor));
    }
  if (roots.empty())
    return {};
  return torch::autograd::grad(roots, leaves, ones, std::nullopt,
                               /*create_graph=*/false, /*allow_unused=*/true);
}

void compareBackward(const Case &test, const Maker &maker) {
  Stack arguments;
  std::vector<Tensor> want;
  if (!accepts([&] {
        arguments = test.make(maker);
        for (IValue &value : arguments)
          if (value.isTensor() && value.toTensor().is_floating_point())
            value = value.toTensor().detach().requires_grad_(true);
        want = differentiate(test.op, arguments);
      }))
    return;
  std::string what =
      "gradient of " + std::string(test.op) + ", " + maker.describe();
  std::string why;
  std::vector<Tensor> got;
  EXPECT_TRUE(
      accepts([&] { got = differentiate(test.op, toMeta(arguments)); }, &why))
      << what << ": " << why;
  // LibTorch has formulas without writes in place for tensors without data;
  // their results may be laid out in another way.
  if (why.empty())
    expectSame(got, want, what, /*strides=*/false);
}

class MetaKernels : public testing::TestWithParam<Family> {
protected:
  void SetUp() override { at::set_num_threads(1); }
  at::NoGradGuard noGrad;
};

/// "aten::x.y" as "x.y".
std::string shortName(const c10::OperatorName &name) {
  return name.name.substr(sizeof("aten::") - 1) +
         (name.overload_name.empty() ? "" : "." + name.overload_name);
}

/// Operators whose kernel for meta tensors is one of ir/capture/meta. Those of
/// other devices have nothing here to be compared with.
std::vector<c10::OperatorHandle> getRegistered() {
  std::vector<c10::OperatorHandle> ops;
  for (const c10::OperatorName &name :
       c10::Dispatcher::singleton().getAllOpNames()) {
    auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::Meta) ||
        !(op->hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
          op->hasKernelForDispatchKey(
              c10::DispatchKey::CompositeExplicitAutograd)))
      continue;
    std::istringstream lines(op->dumpState());
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("Meta: ") &&
          line.find("ir/capture/meta/") != std::string::npos) {
        ops.push_back(*op);
        break;
      }
  }
  return ops;
}

} // namespace

TEST_P(MetaKernels, ForwardAsOnTheCpu) {
  for (const Case &test : GetParam().cases()) {
    EXPECT_TRUE(compareForward(test, {}))
        << test.op << ": the CPU refused the case";
    for (Layout layout : {Layout::Transposed, Layout::ChannelsLast,
                          Layout::Strided, Layout::EmptyBatch})
      if (layout != Layout::EmptyBatch || test.takesEmpty)
        compareForward(test, {layout});
    for (at::ScalarType dtype :
         {at::kDouble, at::kBFloat16, at::kHalf, at::kComplexFloat})
      compareForward(test, {Layout::Contiguous, dtype});
  }
}

TEST_P(MetaKernels, BackwardAsOnTheCpu) {
  for (const Case &test : GetParam().cases())
    for (Layout layout : {Layout::Contiguous, Layout::Transposed})
      if (!test.refused)
        compareBackward(test, {layout});
}

/// What the table of OutVariants.cpp says about results that are written to.
TEST_P(MetaKernels, OutVariantsAsOnTheCpu) {
  std::vector<Case> cases = GetParam().cases();
  for (const c10::OperatorHandle &op : getRegistered()) {
    auto functional = fsdp::meta::getFunctional(op.operator_name());
    if (!functional)
      continue;
    std::string out = shortName(op.operator_name());
    bool any = false, taken = false;
    for (const Case &test : cases) {
      if (test.refused || test.op != shortName(functional->operator_name()))
        continue;
      any = true;
      for (Layout layout : {Layout::Contiguous, Layout::Transposed}) {
        Case written{out.c_str(), [&](const Maker &maker) {
                       Stack arguments = test.make(maker);
                       Stack results = call(test.op, arguments);
                       const auto &schema = functional->schema().arguments();
                       for (size_t i = arguments.size(); i < schema.size(); ++i)
                         arguments.push_back(*schema[i].default_value());
                       for (const Tensor &result : tensorsOf(results))
                         arguments.push_back(at::empty({0}, result.options()));
                       return arguments;
                     }};
        taken |= compareForward(written, {layout});
      }
    }
    EXPECT_TRUE(!any || taken) << out << ": the CPU refused the case";
  }
}

INSTANTIATE_TEST_SUITE_P(, MetaKernels, testing::ValuesIn(families),
                         [](const auto &info) { return info.param.name; });

/// A kernel without a case is an error: nobody knows whether it is right.
TEST(MetaKernelCases, CoverEveryKernel) {
  static thread_local std::set<std::string> called;
  at::CallbackHandle handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction &function)
                                     -> std::unique_ptr<at::ObserverContext> {
        if (auto name = function.operator_name())
          called.insert(shortName(*name));
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  at::NoGradGuard noGrad;
  for (const Family &family : families)
    for (const Case &test : family.cases())
      for (at::ScalarType dtype : {at::kFloat, at::kComplexFloat})
        accepts([&] {
          Stack arguments = toMeta(test.make({Layout::Contiguous, dtype}));
          called.insert(test.op);
          call(test.op, arguments);
        });
  at::removeCallback(handle);
  std::vector<c10::OperatorHandle> registered = getRegistered();
  EXPECT_GT(registered.size(), 150u) << "the kernels are not found";
  for (const c10::OperatorHandle &op : registered) {
    auto functional = fsdp::meta::getFunctional(op.operator_name());
    std::string name = shortName(functional ? functional->operator_name()
                                            : op.operator_name());
    EXPECT_TRUE(called.count(name))
        << shortName(op.operator_name()) << " is in no case";
  }
}
