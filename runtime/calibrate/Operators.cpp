//===- Operators.cpp - Times of kernels that are no products --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels are called by name, as the runtime does. What has no line here counts
// as the others of its kind, whose times are those of a plain one: an addition,
// a sum, a copy, an embedding.
//
//===----------------------------------------------------------------------===//

#include "runtime/calibrate/Cases.h"

#include "runtime/exec/Squares.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/add.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>

#include <algorithm>

using namespace fsdp;

/// Elements of the largest operand.
static constexpr int64_t kOperatorSizes[] = {64,     4096,    32768,
                                             131072, 1 << 20, 4 << 20};
/// Of normalisations and softmax; smaller tensors are one row.
static constexpr int64_t kWidth = 256;
static constexpr int64_t kClasses = 2048; ///< of losses
static constexpr int64_t kRowsOfTable = 2048;
static constexpr int64_t kLengths[] = {16, 64, 256, 1024}; ///< of attention
static constexpr int64_t kHeads = 8, kHeadWidth = 64;
static constexpr int64_t kSides[] = {4, 8, 16, 32, 64}; ///< of images
static constexpr int64_t kChannels = 16, kImages = 4;

namespace {

/// A kernel with its operands, as a plan's call.
class KernelCall {
public:
  KernelCall(const char *op, const char *overload,
             std::vector<c10::IValue> arguments)
      : handle(c10::Dispatcher::singleton().findSchemaOrThrow(op, overload)),
        arguments(std::move(arguments)) {}

  void operator()() {
    stack = arguments;
    handle.callBoxed(stack);
  }
  /// Of operands and results, each once.
  double bytes() {
    (*this)();
    return count(arguments) + count(stack);
  }
  at::Tensor result(size_t index) {
    (*this)();
    return stack[index].toTensor();
  }

private:
  static double count(const std::vector<c10::IValue> &values) {
    double sum = 0;
    for (const c10::IValue &value : values)
      if (value.isTensor() && value.toTensor().defined())
        sum += double(value.toTensor().nbytes());
    return sum;
  }

  c10::OperatorHandle handle;
  std::vector<c10::IValue> arguments;
  torch::jit::Stack stack;
};

class OperatorCases {
public:
  OperatorCases(Crew &crew, std::vector<Measured> &results)
      : crew(crew), results(results) {}

  void elementwise();
  void rows();
  void tables();
  void copies();
  void updates();
  void attention();
  void convolutions();
  void issue();

private:
  void add(const std::string &table, double at, KernelCall call) {
    results.push_back({table, {at}, crew.time(call)});
  }
  /// Calls that take turns.
  void add(const std::string &table, double at, std::vector<KernelCall> calls) {
    size_t next = 0;
    results.push_back({table, {at}, crew.time([&] {
                         calls[next]();
                         next = (next + 1) % calls.size();
                       })});
  }
  void add(const std::string &table, KernelCall call) {
    double at = call.bytes();
    add(table, at, std::move(call));
  }

  Crew &crew;
  std::vector<Measured> &results;
};

at::Tensor numbers(at::IntArrayRef shape) { return at::full(shape, 0.5); }

/// `size` elements as rows of at most `width`.
at::Tensor matrix(int64_t size, int64_t width = kWidth) {
  int64_t columns = std::min(size, width);
  return numbers({size / columns, columns});
}

} // namespace

void OperatorCases::elementwise() {
  for (int64_t size : kOperatorSizes) {
    at::Tensor x = numbers({size}), y = numbers({size});
    for (const char *name : {"relu", "silu", "tanh", "sigmoid", "exp", "log",
                             "rsqrt", "sqrt", "neg", "sin", "cos", "erf"})
      add(name, KernelCall(("aten::" + std::string(name)).c_str(), "", {x}));
    add("gelu", KernelCall("aten::gelu", "", {x, "none"}));
    add("pow", KernelCall("aten::pow", "Tensor_Scalar", {x, 2}));
    add("elementwise", KernelCall("aten::add", "Tensor", {x, y, 1}));
    add("mul", KernelCall("aten::mul", "Tensor", {x, y}));
    add("div", KernelCall("aten::div", "Tensor", {x, y}));
    add("silu_backward", KernelCall("aten::silu_backward", "", {x, y}));
    add("sigmoid_backward", KernelCall("aten::sigmoid_backward", "", {x, y}));
    add("tanh_backward", KernelCall("aten::tanh_backward", "", {x, y}));
    add("gelu_backward", KernelCall("aten::gelu_backward", "", {x, y, "none"}));
    add("threshold_backward",
        KernelCall("aten::threshold_backward", "", {x, y, 0}));
    add("where", KernelCall("aten::where", "self", {at::gt(x, 0.1), x, y}));
  }
}

void OperatorCases::rows() {
  using c10::IValue;
  for (int64_t size : kOperatorSizes) {
    at::Tensor x = matrix(size), y = matrix(size);
    std::vector<int64_t> last = {-1}, width = {x.size(1)};
    std::vector<bool> all = {true, true, true};
    at::Tensor scale = numbers(width), shift = numbers(width);
    add("reduction",
        KernelCall("aten::sum", "dim_IntList", {x, last, false, IValue()}));
    // An instruction of the plan's own, which reads and leaves digits.
    results.push_back({"square_sum",
                       {4 * double(size) + double(sizeof(SumDigits))},
                       crew.time([&] {
                         SumDigits digits{};
                         addSquares(x, digits);
                       })});
    add("mean", KernelCall("aten::mean", "dim", {x, last, false, IValue()}));
    add("linalg_vector_norm", KernelCall("aten::linalg_vector_norm", "",
                                         {x, 2, IValue(), false, IValue()}));
    add("native_layer_norm", KernelCall("aten::native_layer_norm", "",
                                        {x, width, scale, shift, 1e-5}));
    KernelCall norm("aten::native_layer_norm", "",
                    {x, width, scale, shift, 1e-5});
    add("native_layer_norm_backward",
        KernelCall(
            "aten::native_layer_norm_backward", "",
            {y, x, width, norm.result(1), norm.result(2), scale, shift, all}));
    add("_softmax", KernelCall("aten::_softmax", "", {x, -1, false}));
    add("_softmax_backward_data", KernelCall("aten::_softmax_backward_data", "",
                                             {y, x, -1, c10::kFloat}));
    at::Tensor logits = matrix(size, kClasses),
               gradient = matrix(size, kClasses);
    add("_log_softmax",
        KernelCall("aten::_log_softmax", "", {logits, -1, false}));
    add("_log_softmax_backward_data",
        KernelCall("aten::_log_softmax_backward_data", "",
                   {gradient, logits, -1, c10::kFloat}));
  }
}

/// At the bytes that simulate/Work.cpp counts: rows that are read and written,
/// of a whole gradient what it has and three times what it gets.
void OperatorCases::tables() {
  at::Tensor table = numbers({kRowsOfTable, kWidth});
  for (int64_t size : kOperatorSizes) {
    int64_t rows = std::max<int64_t>(1, size / kWidth);
    at::Tensor index = at::randint(kRowsOfTable, {rows}, c10::kLong);
    double written = double(rows * kWidth) * 4;
    add("indexing", 2 * written,
        KernelCall("aten::embedding", "", {table, index, -1, false, false}));
    add("embedding_dense_backward", double(table.nbytes()) + 3 * written,
        KernelCall("aten::embedding_dense_backward", "",
                   {numbers({rows, kWidth}), index, kRowsOfTable, -1, false}));
  }
}

void OperatorCases::copies() {
  for (int64_t size : kOperatorSizes) {
    at::Tensor x = matrix(size), to = matrix(size);
    add("copy", double(2 * x.nbytes()),
        KernelCall("aten::copy_", "", {to, x, false}));
    // Heads of attention, back beside one another.
    int64_t heads = std::max<int64_t>(1, x.size(1) / kHeadWidth);
    at::Tensor apart = numbers({heads, x.size(0), x.size(1) / heads});
    add("clone",
        KernelCall("aten::clone", "",
                   {apart.transpose(0, 1), c10::MemoryFormat::Contiguous}));
  }
}

void OperatorCases::updates() {
  for (int64_t size : kOperatorSizes) {
    auto list = [&] { return c10::List<at::Tensor>({numbers({size})}); };
    c10::List<at::Tensor> steps({at::ones({})}), none;
    // Read and written but for the gradient.
    int64_t adam = 7 * 4 * size, sgd = 5 * 4 * size;
    std::vector<KernelCall> calls;
    for (int64_t i = 0; i < countTurns(adam); ++i)
      calls.emplace_back(
          "aten::_fused_adamw_", "",
          std::vector<c10::IValue>{list(), list(), list(), list(), none, steps,
                                   1e-3, 0.9, 0.999, 0.01, 1e-8, false, false,
                                   c10::IValue(), c10::IValue()});
    add("adam", double(adam), std::move(calls));
    calls.clear();
    for (int64_t i = 0; i < countTurns(sgd); ++i)
      calls.emplace_back("aten::_fused_sgd_", "",
                         std::vector<c10::IValue>{list(), list(), list(), 0.01,
                                                  0.9, 1e-3, 0.0, false, false,
                                                  false, c10::IValue(),
                                                  c10::IValue()});
    add("sgd", double(sgd), std::move(calls));
  }
}

void OperatorCases::attention() {
  for (int64_t length : kLengths) {
    std::vector<int64_t> shape = {1, kHeads, length, kHeadWidth};
    at::Tensor q = numbers(shape), k = numbers(shape), v = numbers(shape);
    const char *forward = "aten::_scaled_dot_product_flash_attention_for_cpu";
    std::vector<c10::IValue> arguments = {
        q, k, v, 0.0, true, c10::IValue(), c10::IValue()};
    // Two products of which half is computed; five backward.
    double flops = 2.0 * double(kHeads * length * length * kHeadWidth);
    add("_scaled_dot_product_flash_attention_for_cpu", flops,
        KernelCall(forward, "", arguments));
    KernelCall made(forward, "", arguments);
    add("_scaled_dot_product_flash_attention_for_cpu_backward", 2.5 * flops,
        KernelCall("aten::_scaled_dot_product_flash_attention_for_cpu_backward",
                   "",
                   {v, q, k, v, made.result(0), made.result(1), 0.0, true,
                    c10::IValue(), c10::IValue()}));
  }
}

void OperatorCases::convolutions() {
  std::vector<int64_t> ones = {1, 1}, zeros = {0, 0}, bias = {kChannels};
  for (int64_t side : kSides) {
    at::Tensor x = numbers({kImages, kChannels, side, side}),
               weight = numbers({kChannels, kChannels, 3, 3});
    double flops = 2.0 * double(x.numel() * kChannels * 9);
    add("convolution", flops,
        KernelCall(
            "aten::convolution", "",
            {x, weight, numbers(bias), ones, ones, ones, false, zeros, 1}));
    add("convolution_backward", 2 * flops,
        KernelCall("aten::convolution_backward", "",
                   {x, x, weight, bias, ones, ones, ones, false, zeros, 1,
                    std::vector<bool>{true, true, true}}));
  }
}

void OperatorCases::issue() {
  at::Tensor x = numbers({16}), y = numbers({16}), out = numbers({16});
  double byName = crew.time(KernelCall("aten::add", "Tensor", {x, y, 1}));
  double direct = crew.time([&] { at::add_out(out, x, y); });
  results.push_back({"issue", {}, std::max(0.0, byName - direct)});
}

void fsdp::measureOperators(Crew &crew, std::vector<Measured> &results) {
  OperatorCases cases(crew, results);
  sayProgress(crew, "elementwise kernels");
  cases.elementwise();
  sayProgress(crew, "normalisations, sums, tables and copies");
  cases.rows();
  cases.tables();
  cases.copies();
  sayProgress(crew, "optimizers, attention and convolutions");
  cases.updates();
  cases.attention();
  cases.convolutions();
  cases.issue();
}
