//===- MetaKernelsTest.cpp - Meta kernels against the CPU's ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every operator runs on real CPU tensors and on meta tensors of the same
// sizes and strides; the results must agree in sizes, strides and dtype. Each
// row of the table runs for several memory layouts of its arguments.
//
//===----------------------------------------------------------------------===//

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include <gtest/gtest.h>

#include <functional>

using at::IValue;
using at::Tensor;
using torch::jit::Stack;

namespace {

enum class Layout { Contiguous, Transposed, ChannelsLast, Strided, EmptyBatch };

const char *name(Layout layout) {
  switch (layout) {
  case Layout::Contiguous:
    return "contiguous";
  case Layout::Transposed:
    return "transposed";
  case Layout::ChannelsLast:
    return "channels last";
  case Layout::Strided:
    return "strided";
  case Layout::EmptyBatch:
    return "empty batch";
  }
  return "";
}

/// Makes the arguments of one case in one layout.
struct Maker {
  Layout layout;
  at::ScalarType dtype = at::kFloat;

  /// The same values, laid out in memory as this case wants.
  Tensor lay(Tensor tensor) const {
    int64_t dims = tensor.dim();
    if (layout == Layout::Transposed && dims >= 2)
      return tensor.transpose(-1, -2).contiguous().transpose(-1, -2);
    if (layout == Layout::ChannelsLast && dims == 4)
      return tensor.contiguous(at::MemoryFormat::ChannelsLast);
    if (layout == Layout::ChannelsLast && dims == 5)
      return tensor.contiguous(at::MemoryFormat::ChannelsLast3d);
    if (layout == Layout::Strided && dims >= 1)
      return at::cat({tensor, tensor}, -1).slice(-1, 0, tensor.size(-1));
    return tensor;
  }

  std::vector<int64_t> batch(std::vector<int64_t> sizes) const {
    if (layout == Layout::EmptyBatch && !sizes.empty())
      sizes[0] = 0;
    return sizes;
  }

  /// Data, whose first dimension is the batch.
  Tensor operator()(std::vector<int64_t> sizes) const {
    return lay(at::randn(batch(sizes), at::kFloat).to(dtype));
  }
  /// Between 0 and 1.
  Tensor unit(std::vector<int64_t> sizes) const {
    return lay(at::randn(batch(sizes), at::kFloat).sigmoid().to(dtype));
  }
  Tensor index(std::vector<int64_t> sizes, int64_t end) const {
    return at::randint(end, batch(sizes), at::kLong);
  }
  /// A parameter: contiguous, never empty.
  Tensor weight(std::vector<int64_t> sizes) const {
    return at::randn(sizes, at::kFloat).to(dtype);
  }
};

Stack withDefaults(const c10::OperatorHandle &op, Stack stack) {
  const auto &arguments = op.schema().arguments();
  for (size_t i = stack.size(); i < arguments.size(); ++i)
    stack.push_back(arguments[i].default_value().value_or(IValue()));
  return stack;
}

c10::OperatorHandle find(const std::string &full) {
  size_t dot = full.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow(
      ("aten::" + full.substr(0, dot)).c_str(),
      dot == std::string::npos ? "" : full.substr(dot + 1).c_str());
}

Tensor toMeta(const Tensor &tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(),
                           tensor.options().device(at::kMeta));
}

IValue toMeta(const IValue &value) {
  if (value.isTensor() && value.toTensor().defined())
    return toMeta(value.toTensor());
  if (value.isDevice())
    return at::Device(at::kMeta);
  return value;
}

Stack call(const std::string &name, Stack stack) {
  c10::OperatorHandle op = find(name);
  stack = withDefaults(op, std::move(stack));
  op.callBoxed(stack);
  return stack;
}

Tensor first(const std::string &name, Stack stack) {
  return call(name, std::move(stack))[0].toTensor();
}

std::string describe(const IValue &value) {
  if (!value.isTensor())
    return "not a tensor";
  const Tensor &tensor = value.toTensor();
  if (!tensor.defined())
    return "undefined";
  std::ostringstream text;
  text << tensor.scalar_type() << tensor.sizes() << " strides "
       << tensor.strides();
  return text.str();
}

using Arguments = std::function<Stack(const Maker &)>;
struct Case {
  const char *op;
  Arguments make;
  /// False where the CPU kernel crashes on an empty batch, which the composite
  /// operators that call it therefore never pass on.
  bool takesEmpty = true;
};

/// True if the CPU takes these arguments.
bool compare(const Case &test, const Maker &maker) {
  Stack arguments, want;
  try {
    arguments = test.make(maker);
    want = call(test.op, arguments);
  } catch (const c10::Error &) {
    return false;
  }
  Stack meta;
  for (const IValue &value : withDefaults(find(test.op), arguments))
    meta.push_back(toMeta(value));
  Stack got = call(test.op, meta);
  EXPECT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(describe(got[i]), describe(want[i]))
        << test.op << ", " << name(maker.layout) << ", result " << i;
  return true;
}

using Ints = std::vector<int64_t>;
const IValue none;

std::array<bool, 3> allThree = {true, true, true};

std::vector<Case> normalizations() {
  auto layerNorm = [](const Maker &make) -> Stack {
    return {make({4, 6, 8}), Ints{8}, make.weight({8}), make.weight({8}), 1e-5};
  };
  auto groupNorm = [](const Maker &make) -> Stack {
    Tensor input = make({2, 6, 4, 4});
    return {input, make.weight({6}), make.weight({6}), input.size(0), 6, 16, 3,
            1e-5};
  };
  auto batchNorm = [](bool training) {
    return [=](const Maker &make) -> Stack {
      return {make({2, 6, 4, 4}),
              make.weight({6}),
              make.weight({6}),
              make.weight({6}),
              make.weight({6}).abs(),
              training,
              0.1,
              1e-5};
    };
  };
  auto batchNormBackward = [=](bool training, bool affine) {
    return [=](const Maker &make) -> Stack {
      Stack in = batchNorm(training)(make);
      Stack out = call("native_batch_norm", in);
      return {make({2, 6, 4, 4}),
              in[0],
              affine ? in[1] : none,
              in[3],
              in[4],
              out[1],
              out[2],
              training,
              1e-5,
              std::array<bool, 3>{true, affine, affine}};
    };
  };
  return {
      {"native_layer_norm", layerNorm},
      {"native_layer_norm",
       [](const Maker &make) -> Stack {
         return {make({4, 6, 8}), Ints{6, 8}, none, none, 1e-5};
       }},
      {"native_layer_norm_backward",
       [=](const Maker &make) -> Stack {
         Stack in = layerNorm(make), out = call("native_layer_norm", in);
         return {make({4, 6, 8}), in[0], in[1], out[1],
                 out[2],          in[2], in[3], allThree};
       }},
      {"native_layer_norm_backward",
       [=](const Maker &make) -> Stack {
         Stack in = layerNorm(make), out = call("native_layer_norm", in);
         return {make({4, 6, 8}),
                 in[0],
                 in[1],
                 out[1],
                 out[2],
                 in[2],
                 none,
                 std::array<bool, 3>{true, false, false}};
       }},
      {"native_group_norm", groupNorm},
      {"native_group_norm_backward",
       [=](const Maker &make) -> Stack {
         Stack in = groupNorm(make), out = call("native_group_norm", in);
         return {make({2, 6, 4, 4}),
                 in[0],
                 out[1],
                 out[2],
                 in[1],
                 in[3],
                 6,
                 16,
                 3,
                 allThree};
       }},
      {"native_batch_norm", batchNorm(true)},
      {"native_batch_norm", batchNorm(false)},
      {"native_batch_norm",
       [](const Maker &make) -> Stack {
         return {make({4, 6}), none, none, none, none, true, 0.1, 1e-5};
       }},
      {"_native_batch_norm_legit", batchNorm(true)},
      {"_native_batch_norm_legit_functional", batchNorm(true)},
      {"_native_batch_norm_legit.no_stats",
       [](const Maker &make) -> Stack {
         return {make({2, 6, 5}),
                 make.weight({6}),
                 make.weight({6}),
                 true,
                 0.1,
                 1e-5};
       }},
      {"native_batch_norm_backward", batchNormBackward(true, true), false},
      {"native_batch_norm_backward", batchNormBackward(false, true), false},
      {"native_batch_norm_backward", batchNormBackward(true, false), false},
  };
}

std::vector<Case> convolutions() {
  struct Shape {
    Ints input, weight, stride, padding, dilation;
    bool transposed;
    Ints outputPadding;
    int64_t groups;
  };
  std::vector<Shape> shapes = {
      {{2, 3, 16, 16}, {8, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1},
      {{2, 3, 9, 7}, {4, 3, 3, 2}, {2, 1}, {0, 1}, {1, 2}, false, {0, 0}, 1},
      {{2, 6, 8, 8}, {6, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 6},
      {{20, 3, 16, 16}, {8, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1},
      {{2, 3, 32, 32}, {64, 3, 8, 8}, {8, 8}, {0, 0}, {1, 1}, false, {0, 0}, 1},
      {{2, 6, 5, 5}, {6, 4, 3, 3}, {2, 2}, {1, 1}, {1, 1}, true, {1, 1}, 1},
      {{2, 6, 5, 5}, {6, 2, 3, 3}, {2, 2}, {1, 1}, {1, 1}, true, {0, 0}, 2},
      {{3, 4, 20}, {8, 4, 3}, {1}, {1}, {1}, false, {0}, 1},
      {{3, 4, 20}, {8, 2, 3}, {2}, {2}, {2}, false, {0}, 2},
      {{2, 3, 6, 6, 6},
       {4, 3, 3, 3, 3},
       {1, 1, 1},
       {1, 1, 1},
       {1, 1, 1},
       false,
       {0, 0, 0},
       1},
  };
  std::vector<Case> cases;
  for (const Shape &s : shapes)
    for (bool weightsToo : {false, true}) {
      auto weight = [=](const Maker &make) {
        Tensor tensor = make.weight(s.weight);
        return weightsToo && make.layout == Layout::ChannelsLast
                   ? make.lay(tensor)
                   : tensor;
      };
      int64_t outputs = s.transposed ? s.weight[1] * s.groups : s.weight[0];
      auto forward = [=](const Maker &make) -> Stack {
        return {make(s.input), weight(make),    make.weight({outputs}),
                s.stride,      s.padding,       s.dilation,
                s.transposed,  s.outputPadding, s.groups};
      };
      cases.push_back({"convolution", forward});
      for (bool dense : {false, true})
        cases.push_back(
            {"convolution_backward", [=](const Maker &make) -> Stack {
               Stack in = forward(make);
               Tensor gradient = at::randn_like(first("convolution", in));
               if (dense)
                 gradient = gradient.contiguous();
               return {gradient,        in[0],     in[1],      Ints{outputs},
                       s.stride,        s.padding, s.dilation, s.transposed,
                       s.outputPadding, s.groups,  allThree};
             }});
    }
  return cases;
}

std::vector<Case> attentions() {
  auto forward = [](bool causal, bool masked, int64_t keys) {
    return [=](const Maker &make) -> Stack {
      Tensor query = make({2, 4, 6, 8});
      Ints other = {2, 4, keys, 8};
      return {query,       make(other),
              make(other), 0.0,
              causal,      masked ? IValue(make.weight({6, keys})) : none,
              none};
    };
  };
  auto backward = [=](bool causal, bool masked, int64_t keys) {
    return [=](const Maker &make) -> Stack {
      Stack in = forward(causal, masked, keys)(make);
      Stack out = call("_scaled_dot_product_flash_attention_for_cpu", in);
      return {make({2, 4, 6, 8}),
              in[0],
              in[1],
              in[2],
              out[0],
              out[1],
              0.0,
              causal,
              in[5],
              none};
    };
  };
  const char *op = "_scaled_dot_product_flash_attention_for_cpu";
  const char *opBackward =
      "_scaled_dot_product_flash_attention_for_cpu_backward";
  return {{op, forward(true, false, 6)},
          {op, forward(false, false, 5)},
          {op, forward(false, true, 5)},
          {opBackward, backward(true, false, 6)},
          {opBackward, backward(false, false, 5)},
          {opBackward, backward(false, true, 5)}};
}

std::vector<Case> indexing() {
  return {
      {"index_select",
       [](const Maker &make) -> Stack {
         return {make({5, 6}), 0, at::tensor({0, 2, 2})};
       }},
      {"index_select",
       [](const Maker &make) -> Stack {
         return {make({5, 6}), -1, at::tensor({0, 2, 2, 5})};
       }},
      {"embedding",
       [](const Maker &make) -> Stack {
         return {make.weight({10, 6}), make.index({4, 3}, 10)};
       }},
      {"embedding_dense_backward",
       [](const Maker &make) -> Stack {
         return {make({4, 3, 6}), make.index({4, 3}, 10), 10, -1, false};
       }},
      {"take",
       [](const Maker &make) -> Stack {
         return {make.weight({4, 5}), make.index({3, 2}, 20)};
       }},
      {"flip",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 4, 5}), Ints{0, 2}};
       }},
      {"roll",
       [](const Maker &make) -> Stack {
         return {make({4, 5}), Ints{1}, Ints{0}};
       }},
      {"roll",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 4, 4}), Ints{1, 2}, Ints{2, 3}};
       }},
      {"unfold_backward",
       [](const Maker &make) -> Stack {
         return {make({3, 4, 2}), make.batch({3, 8}), 1, 2, 2};
       }},
      {"channel_shuffle",
       [](const Maker &make) -> Stack { return {make({2, 6, 4, 4}), 3}; }},
      {"bucketize.Tensor",
       [](const Maker &make) -> Stack {
         return {make({4, 5}), at::tensor({-1.0f, 0.0f, 1.0f}), false, false};
       }},
      {"searchsorted.Tensor",
       [](const Maker &make) -> Stack {
         return {at::tensor({-1.0f, 0.0f, 1.0f}), make({4, 5}), true};
       }},
      {"repeat_interleave.Tensor",
       [](const Maker &make) -> Stack { return {at::tensor({1, 2, 3}), 6}; }},
      {"tril_indices",
       [](const Maker &make) -> Stack {
         return {4, 5, 0, none, none, at::Device(at::kCPU)};
       }},
      {"triu_indices",
       [](const Maker &make) -> Stack {
         return {4, 5, 1, none, none, at::Device(at::kCPU)};
       }},
  };
}

std::vector<Case> pointwiseOps() {
  auto unary = [](const Maker &make) -> Stack { return {make({2, 3, 4, 5})}; };
  auto binary = [](const Maker &make) -> Stack {
    return {make({2, 3, 4, 5}), make({2, 3, 4, 5})};
  };
  auto shifts = [](const Maker &make) -> Stack {
    return {make.index({4, 5}, 9), make.index({4, 5}, 3)};
  };
  auto shiftsScalar = [](const Maker &make) -> Stack {
    return {make.index({4, 5}, 9), 2};
  };
  auto prelu = [](const Maker &make) -> Stack {
    return {make({2, 3, 4, 5}), make.weight({1, 3, 1, 1})};
  };
  return {
      {"where.self",
       [](const Maker &make) -> Stack {
         Tensor input = make({2, 3, 4, 5});
         return {input.gt(0), input, make({2, 3, 4, 5})};
       }},
      {"where.self",
       [](const Maker &make) -> Stack {
         Tensor input = make({4, 5});
         return {input.gt(0), input, at::scalar_tensor(0.5, at::kDouble)};
       }},
      {"where.self",
       [](const Maker &make) -> Stack {
         return {make({4, 1}).gt(0), make({1, 5}), make.index({4, 5}, 5)};
       }},
      {"abs", unary},
      {"logical_not", unary},
      {"logical_and", binary},
      {"logical_or", binary},
      {"logical_xor", binary},
      {"complex", binary},
      {"polar", binary},
      {"nan_to_num", unary},
      {"mvlgamma",
       [](const Maker &make) -> Stack {
         return {make.unit({4, 5}).add(1), 1};
       }},
      {"conj_physical", unary},
      {"relu", unary},
      {"relu_", unary},
      {"threshold_backward",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 4, 5}), make({2, 3, 4, 5}), 0};
       }},
      {"hardswish", unary},
      {"hardswish_backward", binary},
      {"hardtanh", unary},
      {"hardtanh_backward",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 4, 5}), make({2, 3, 4, 5}), -1, 1};
       }},
      {"log_sigmoid_forward", unary},
      {"log_sigmoid_backward",
       [](const Maker &make) -> Stack {
         Tensor input = make({2, 3, 4, 5});
         return {make({2, 3, 4, 5}), input,
                 call("log_sigmoid_forward", {input})[1]};
       }},
      {"glu_backward",
       [](const Maker &make) -> Stack {
         return {make({4, 3}), make({4, 6}), 1};
       }},
      {"_prelu_kernel", prelu},
      {"_prelu_kernel_backward",
       [=](const Maker &make) -> Stack {
         Stack in = prelu(make);
         return {make({2, 3, 4, 5}), in[0], in[1]};
       }},
      {"angle", unary},
      {"isnan", unary},
      {"isnan",
       [](const Maker &make) -> Stack { return {make.index({4, 5}, 3)}; }},
      {"logit",
       [](const Maker &make) -> Stack { return {make.unit({4, 5}), 1e-6}; }},
      {"logit",
       [](const Maker &make) -> Stack { return {make.index({4, 5}, 1)}; }},
      {"floor_divide", binary},
      {"floor_divide",
       [](const Maker &make) -> Stack {
         return {make.index({4, 5}, 9), make({4, 5})};
       }},
      {"rsub.Tensor", binary},
      {"__lshift__.Tensor", shifts},
      {"__lshift__.Scalar", shiftsScalar},
      {"__rshift__.Tensor", shifts},
      {"__rshift__.Scalar", shiftsScalar},
      {"native_dropout",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 4, 5}), 0.0, true};
       }},
      {"native_dropout_backward",
       [](const Maker &make) -> Stack {
         Tensor gradient = make({2, 3, 4, 5});
         return {gradient, gradient.gt(0), 2.0};
       }},
  };
}

std::vector<Case> losses() {
  std::vector<Case> cases;
  for (int64_t reduction : {0, 1, 2}) {
    auto pair = [=](const Maker &make) -> Stack {
      return {make({4, 5}), make({4, 5}), reduction};
    };
    auto unitPair = [=](const Maker &make) -> Stack {
      return {make.unit({4, 5}), make.unit({4, 5}), none, reduction};
    };
    auto nll2d = [=](const Maker &make) -> Stack {
      return {make({2, 5, 3, 4}), make.index({2, 3, 4}, 5), none, reduction,
              -100};
    };
    // The gradient of the loss: a scalar unless nothing was reduced.
    auto gradient = [](const Tensor &loss) { return at::ones_like(loss); };
    cases.push_back({"mse_loss", pair});
    cases.push_back({"mse_loss_backward", [=](const Maker &make) -> Stack {
                       Stack in = pair(make);
                       return {gradient(first("mse_loss", in)), in[0], in[1],
                               reduction};
                     }});
    cases.push_back(
        {"smooth_l1_loss_backward", [=](const Maker &make) -> Stack {
           Stack in = pair(make);
           return {gradient(first("smooth_l1_loss", in)), in[0], in[1],
                   reduction, 1.0};
         }});
    cases.push_back({"huber_loss", pair});
    cases.push_back({"huber_loss_backward", [=](const Maker &make) -> Stack {
                       Stack in = pair(make);
                       return {gradient(first("huber_loss", in)), in[0], in[1],
                               reduction, 1.0};
                     }});
    cases.push_back({"binary_cross_entropy", unitPair});
    cases.push_back(
        {"binary_cross_entropy_backward", [=](const Maker &make) -> Stack {
           Stack in = unitPair(make);
           return {gradient(first("binary_cross_entropy", in)), in[0], in[1],
                   none, reduction};
         }});
    cases.push_back({"nll_loss2d_forward", nll2d});
    cases.push_back({"nll_loss2d_backward", [=](const Maker &make) -> Stack {
                       Stack in = nll2d(make);
                       Stack out = call("nll_loss2d_forward", in);
                       return {gradient(out[0].toTensor()),
                               in[0],
                               in[1],
                               none,
                               reduction,
                               -100,
                               out[1]};
                     }});
    auto margin = [=](const Maker &make) -> Stack {
      return {make({4, 5}), make.index({4}, 5), 1, 1, none, reduction};
    };
    auto labels = [=](const Maker &make) -> Stack {
      return {make({4, 5}), make.index({4, 5}, 5), reduction};
    };
    cases.push_back({"multi_margin_loss", margin});
    cases.push_back(
        {"multi_margin_loss_backward", [=](const Maker &make) -> Stack {
           Stack in = margin(make);
           return {gradient(first("multi_margin_loss", in)),
                   in[0],
                   in[1],
                   1,
                   1,
                   none,
                   reduction};
         }});
    cases.push_back({"multilabel_margin_loss_forward", labels});
    cases.push_back(
        {"multilabel_margin_loss_backward", [=](const Maker &make) -> Stack {
           Stack in = labels(make);
           Stack out = call("multilabel_margin_loss_forward", in);
           return {gradient(out[0].toTensor()), in[0], in[1], reduction,
                   out[1]};
         }});
  }
  return cases;
}

std::vector<Case> matrices() {
  auto cdist = [](const Maker &make) -> Stack {
    return {make({2, 4, 3}), make({2, 5, 3}), 2.0, none};
  };
  auto weightNorm = [](const Maker &make) -> Stack {
    return {make({6, 5}), make.weight({6, 1}), 0};
  };
  return {
      {"dot",
       [](const Maker &make) -> Stack { return {make({5}), make({5})}; }},
      {"vdot",
       [](const Maker &make) -> Stack { return {make({5}), make({5})}; }},
      {"trace", [](const Maker &make) -> Stack { return {make({5, 4})}; }},
      {"trace",
       [](const Maker &make) -> Stack { return {make.index({5, 4}, 3)}; }},
      {"addbmm",
       [](const Maker &make) -> Stack {
         return {make.weight({4, 6}), make({3, 4, 5}), make({3, 5, 6})};
       }},
      {"_cdist_forward", cdist},
      {"_cdist_backward",
       [=](const Maker &make) -> Stack {
         Stack in = cdist(make);
         Tensor out = first("_cdist_forward", in);
         return {at::randn_like(out), in[0], in[1], 2.0, out};
       }},
      {"_pdist_forward",
       [](const Maker &make) -> Stack { return {make({5, 3}), 2.0}; }},
      {"_pdist_backward",
       [](const Maker &make) -> Stack {
         Tensor input = make({5, 3}).contiguous();
         Tensor out = first("_pdist_forward", {input, 2.0});
         return {at::randn_like(out), input, 2.0, out};
       },
       false},
      {"_weight_norm_interface", weightNorm, false},
      {"_weight_norm_interface_backward",
       [=](const Maker &make) -> Stack {
         Stack in = weightNorm(make);
         return {at::randn_like(in[0].toTensor()), in[0], in[1],
                 call("_weight_norm_interface", in)[1], 0};
       },
       false},
  };
}

std::vector<Case> padding() {
  Ints pad2d = {1, 2, 0, 1}, pad3d = {1, 1, 0, 1, 2, 0};
  auto backward = [](const char *forward, Ints sizes, Ints pad) {
    return [=](const Maker &make) -> Stack {
      Tensor input = make(sizes);
      return {at::randn_like(first(forward, {input, pad})), input, pad};
    };
  };
  auto sampler = [](Ints input, Ints grid) {
    return [=](const Maker &make) -> Stack {
      return {make(input), make.unit(grid), 0, 0, false};
    };
  };
  auto samplerBackward = [=](const char *forward, Ints input, Ints grid) {
    return [=](const Maker &make) -> Stack {
      Stack in = sampler(input, grid)(make);
      return {at::randn_like(first(forward, in)), in[0], in[1], 0, 0, false,
              std::array<bool, 2>{true, true}};
    };
  };
  return {
      {"reflection_pad2d",
       [=](const Maker &make) -> Stack { return {make({2, 3, 4, 5}), pad2d}; }},
      {"reflection_pad2d",
       [=](const Maker &make) -> Stack { return {make({3, 4, 5}), pad2d}; }},
      {"reflection_pad2d_backward",
       backward("reflection_pad2d", {2, 3, 4, 5}, pad2d)},
      {"replication_pad2d_backward",
       backward("replication_pad2d", {2, 3, 4, 5}, pad2d)},
      {"replication_pad3d_backward",
       backward("replication_pad3d", {2, 3, 4, 5, 4}, pad3d)},
      {"im2col",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 6, 7}), Ints{2, 3}, Ints{1, 2}, Ints{1, 0},
                 Ints{1, 2}};
       }},
      {"im2col",
       [](const Maker &make) -> Stack {
         return {make({3, 6, 7}), Ints{2, 3}, Ints{1, 1}, Ints{0, 0},
                 Ints{1, 1}};
       }},
      {"col2im",
       [](const Maker &make) -> Stack {
         return {make({2, 12, 9}), Ints{4, 4}, Ints{2, 2},
                 Ints{1, 1},       Ints{0, 0}, Ints{1, 1}};
       }},
      {"grid_sampler_2d", sampler({2, 3, 4, 5}, {2, 6, 7, 2})},
      {"grid_sampler_3d", sampler({2, 3, 4, 5, 4}, {2, 6, 7, 3, 3})},
      {"grid_sampler_2d_backward",
       samplerBackward("grid_sampler_2d", {2, 3, 4, 5}, {2, 6, 7, 2})},
      {"grid_sampler_3d_backward",
       samplerBackward("grid_sampler_3d", {2, 3, 4, 5, 4}, {2, 6, 7, 3, 3})},
  };
}

std::vector<Case> pooling() {
  auto pool3d = [](const Maker &make) -> Stack {
    return {make({2, 3, 6, 7, 8}), Ints{2, 2, 3}, Ints{2, 1, 2},
            Ints{0, 1, 1},         Ints{1, 1, 1}, true};
  };
  auto unpool = [](const char *pool, Ints sizes, Ints kernel) {
    return [=](const Maker &make) -> Stack {
      Stack out = call(pool, {make(sizes), kernel, kernel});
      return {out[0], out[1], Ints(sizes.begin() + 2, sizes.end())};
    };
  };
  auto backward = [](Ints sizes, Ints size) {
    return [=](const Maker &make) -> Stack {
      Tensor input = make(sizes);
      const char *op =
          size.size() == 2 ? "_adaptive_avg_pool2d" : "_adaptive_avg_pool3d";
      return {at::randn_like(first(op, {input, size})), input};
    };
  };
  return {
      {"_adaptive_avg_pool2d",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 8, 8}), Ints{2, 3}};
       }},
      {"_adaptive_avg_pool2d",
       [](const Maker &make) -> Stack {
         return {make({3, 8, 8}), Ints{1, 1}};
       }},
      {"_adaptive_avg_pool2d_backward", backward({2, 3, 8, 8}, {2, 3})},
      {"_adaptive_avg_pool3d",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 8, 8, 6}), Ints{2, 3, 1}};
       }},
      {"_adaptive_avg_pool3d_backward", backward({2, 3, 8, 8, 6}, {2, 3, 1})},
      {"max_pool2d_with_indices",
       [](const Maker &make) -> Stack {
         return {make({2, 3, 8, 8}), Ints{2, 2}, Ints{},
                 Ints{0, 0},         Ints{1, 1}, false};
       }},
      {"max_pool3d_with_indices", pool3d},
      {"max_pool3d_with_indices_backward",
       [=](const Maker &make) -> Stack {
         Stack in = pool3d(make), out = call("max_pool3d_with_indices", in);
         return {at::randn_like(out[0].toTensor()),
                 in[0],
                 in[1],
                 in[2],
                 in[3],
                 in[4],
                 true,
                 out[1]};
       }},
      {"max_unpool2d", unpool("max_pool2d_with_indices", {2, 3, 6, 6}, {2, 2})},
      {"max_unpool3d",
       [=](const Maker &make) -> Stack {
         Stack in = unpool("max_pool3d_with_indices", {2, 3, 6, 6, 6},
                           {2, 2, 2})(make);
         in.push_back(Ints{2, 2, 2});
         in.push_back(Ints{0, 0, 0});
         return in;
       }},
  };
}

std::vector<Case> reductions() {
  std::vector<Case> cases;
  for (const char *op : {"max", "min", "median", "nanmedian", "prod", "nansum"})
    cases.push_back(
        {op, [](const Maker &make) -> Stack { return {make({4, 5})}; }});
  cases.push_back({"prod", [](const Maker &make) -> Stack {
                     return {make.index({4, 5}, 3)};
                   }});
  cases.push_back({"nansum", [](const Maker &make) -> Stack {
                     return {make({4, 5, 6}), Ints{0, 2}, true};
                   }});
  cases.push_back({"count_nonzero.dim_IntList", [](const Maker &make) -> Stack {
                     return {make({4, 5, 6}), Ints{0, 2}};
                   }});
  for (const char *op : {"var.correction", "std.correction",
                         "var_mean.correction", "std_mean.correction"})
    for (bool keepdim : {false, true}) {
      cases.push_back({op, [=](const Maker &make) -> Stack {
                         return {make({4, 5, 6, 3}), Ints{-1}, 1, keepdim};
                       }});
      cases.push_back({op, [=](const Maker &make) -> Stack {
                         return {make({4, 5, 6, 3}), none, 0, keepdim};
                       }});
    }
  return cases;
}

std::vector<Case> sorting() {
  std::vector<Case> cases;
  for (const char *op : {"cummax", "cummin", "logcumsumexp"})
    for (int64_t dim : {0, -1})
      cases.push_back({op, [=](const Maker &make) -> Stack {
                         return {make({4, 5, 6}), dim};
                       }});
  for (bool keepdim : {false, true}) {
    for (const char *op : {"median.dim", "nanmedian.dim", "mode"})
      for (int64_t dim : {0, -1})
        cases.push_back({op, [=](const Maker &make) -> Stack {
                           return {make({4, 5, 6}), dim, keepdim};
                         }});
    cases.push_back({"kthvalue", [=](const Maker &make) -> Stack {
                       return {make({4, 5, 6}), 2, 1, keepdim};
                     }});
  }
  return cases;
}

void check(const std::vector<Case> &cases) {
  at::NoGradGuard noGrad;
  at::set_num_threads(1);
  for (const Case &test : cases) {
    EXPECT_TRUE(compare(test, {Layout::Contiguous}))
        << test.op << ": the CPU refused the case";
    for (Layout layout : {Layout::Transposed, Layout::ChannelsLast,
                          Layout::Strided, Layout::EmptyBatch})
      if (layout != Layout::EmptyBatch || test.takesEmpty)
        compare(test, {layout});
    compare(test, {Layout::Contiguous, at::kDouble});
    compare(test, {Layout::Contiguous, at::kBFloat16});
  }
}

} // namespace

TEST(MetaKernels, Normalizations) { check(normalizations()); }
TEST(MetaKernels, Convolutions) { check(convolutions()); }
TEST(MetaKernels, Attention) { check(attentions()); }
TEST(MetaKernels, Indexing) { check(indexing()); }
TEST(MetaKernels, Pointwise) { check(pointwiseOps()); }
TEST(MetaKernels, Losses) { check(losses()); }
TEST(MetaKernels, Matrices) { check(matrices()); }
TEST(MetaKernels, Padding) { check(padding()); }
TEST(MetaKernels, Pooling) { check(pooling()); }
TEST(MetaKernels, Reductions) { check(reductions()); }
TEST(MetaKernels, Sorting) { check(sorting()); }
