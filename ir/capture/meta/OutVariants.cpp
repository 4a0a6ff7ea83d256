//===- OutVariants.cpp - Overloads that write to their results ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch's composite operators call the overloads that write to a result as
// often as the functional ones. An overload of this table has the results that
// its functional one has, for which a file of this folder knows the rule.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/OutVariants.h"
#include "ir/capture/meta/Shapes.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <unordered_map>

using namespace fsdp::meta;

namespace {

using Stack = torch::jit::Stack;

/// How the CPU lays out a result that it had to resize.
enum class OutLayout { AsFunctional, Contiguous };

struct Variant {
  const char *out;
  const char *functional;
  OutLayout layout = OutLayout::AsFunctional;
};

constexpr Variant variants[] = {
    {"_add_relu.out", "_add_relu.Tensor"},
    {"_fft_c2c.out", "_fft_c2c", OutLayout::Contiguous},
    {"_fft_c2r.out", "_fft_c2r", OutLayout::Contiguous},
    {"_fft_r2c.out", "_fft_r2c", OutLayout::Contiguous},
    {"_logcumsumexp.out", "_logcumsumexp"},
    {"_native_batch_norm_legit.no_stats_out",
     "_native_batch_norm_legit.no_stats"},
    {"_native_batch_norm_legit.out", "_native_batch_norm_legit"},
    {"_batch_norm_with_update.out", "_batch_norm_with_update"},
    {"_slow_conv2d_forward.output", "_slow_conv2d_forward"},
    {"adaptive_avg_pool2d.out", "_adaptive_avg_pool2d"},
    {"adaptive_avg_pool3d.out", "_adaptive_avg_pool3d"},
    {"adaptive_avg_pool3d_backward.grad_input",
     "_adaptive_avg_pool3d_backward"},
    {"addbmm.out", "addbmm"},
    {"angle.out", "angle"},
    {"bucketize.Tensor_out", "bucketize.Tensor"},
    {"cholesky.out", "cholesky", OutLayout::Contiguous},
    {"cholesky_inverse.out", "cholesky_inverse"},
    {"col2im.out", "col2im"},
    {"floor_divide.out", "floor_divide"},
    {"fractional_max_pool3d_backward.grad_input",
     "fractional_max_pool3d_backward"},
    {"geqrf.a", "geqrf"},
    {"glu_backward.grad_input", "glu_backward"},
    {"hardswish.out", "hardswish"},
    {"hardtanh.out", "hardtanh"},
    {"hardtanh_backward.grad_input", "hardtanh_backward"},
    {"histc.out", "histc"},
    {"huber_loss.out", "huber_loss"},
    {"im2col.out", "im2col"},
    {"index_select.out", "index_select"},
    {"linalg_eig.out", "linalg_eig"},
    {"linalg_eigvals.out", "_linalg_eigvals"},
    {"linalg_householder_product.out", "linalg_householder_product"},
    {"linalg_solve_triangular.out", "linalg_solve_triangular"},
    {"log_sigmoid_backward.grad_input", "log_sigmoid_backward"},
    {"log_sigmoid_forward.output", "log_sigmoid_forward"},
    {"logit.out", "logit"},
    {"max.unary_out", "max"},
    {"max_pool3d_with_indices.out", "max_pool3d_with_indices"},
    {"max_pool3d_with_indices_backward.grad_input",
     "max_pool3d_with_indices_backward"},
    {"max_unpool2d.out", "max_unpool2d"},
    {"max_unpool3d.out", "max_unpool3d"},
    {"min.unary_out", "min"},
    {"mse_loss_backward.grad_input", "mse_loss_backward"},
    {"multi_margin_loss.out", "multi_margin_loss"},
    {"multi_margin_loss_backward.grad_input", "multi_margin_loss_backward"},
    {"multilabel_margin_loss_backward.grad_input",
     "multilabel_margin_loss_backward"},
    {"multilabel_margin_loss_forward.output", "multilabel_margin_loss_forward"},
    {"nansum.out", "nansum"},
    {"native_batch_norm.out", "native_batch_norm"},
    {"nll_loss2d_backward.grad_input", "nll_loss2d_backward"},
    {"nll_loss2d_forward.output", "nll_loss2d_forward"},
    {"nonzero_static.out", "nonzero_static"},
    {"ormqr.out", "ormqr"},
    {"reflection_pad2d.out", "reflection_pad2d"},
    {"reflection_pad2d_backward.grad_input", "reflection_pad2d_backward"},
    {"replication_pad2d_backward.grad_input", "replication_pad2d_backward"},
    {"replication_pad3d_backward.grad_input", "replication_pad3d_backward"},
    {"rrelu_with_noise.out", "rrelu_with_noise"},
    {"searchsorted.Scalar_out", "searchsorted.Scalar"},
    {"searchsorted.Tensor_out", "searchsorted.Tensor"},
    {"slow_conv3d_forward.output", "slow_conv3d_forward"},
    {"slow_conv_transpose3d.out", "slow_conv_transpose3d"},
    {"std.correction_out", "std.correction"},
    {"take.out", "take"},
    {"var.correction_out", "var.correction"},
    {"where.self_out", "where.self"},
};

c10::OperatorName parse(std::string_view text) {
  size_t dot = text.find('.');
  return {"aten::" + std::string(text.substr(0, dot)),
          dot == text.npos ? "" : std::string(text.substr(dot + 1))};
}

struct Functional {
  c10::OperatorHandle functional;
  OutLayout layout;
};

const Functional *findTarget(const c10::OperatorName &out) {
  static const auto targets = [] {
    std::unordered_map<c10::OperatorName, Functional> map;
    for (const Variant &variant : variants)
      map.emplace(parse(variant.out),
                  Functional{c10::Dispatcher::singleton()
                                 .findOp(parse(variant.functional))
                                 .value(),
                             variant.layout});
    return map;
  }();
  auto it = targets.find(out);
  return it == targets.end() ? nullptr : &it->second;
}

/// Computes the functional overload's results and gives their layouts to the
/// arguments that are written to, which come last.
void computeInto(const c10::OperatorHandle &op, c10::DispatchKeySet,
                 Stack *stack) {
  const c10::FunctionSchema &schema = op.schema();
  size_t outs = schema.returns().size();
  Stack results(stack->end() - schema.arguments().size(), stack->end() - outs);
  Stack out(stack->end() - outs, stack->end());
  const Functional &target = *findTarget(op.operator_name());
  target.functional.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta),
                                    &results);
  torch::jit::drop(*stack, schema.arguments().size());
  for (size_t i = 0; i < outs; ++i) {
    Tensor result = results[i].toTensor(), written = out[i].toTensor();
    if (target.layout == OutLayout::Contiguous)
      result = contiguousLike(result);
    stack->push_back(takeLayout(written, result));
  }
}

} // namespace

std::optional<c10::OperatorHandle>
fsdp::meta::getFunctional(const c10::OperatorName &out) {
  const Functional *target = findTarget(out);
  return target ? std::optional(target->functional) : std::nullopt;
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  for (const Variant &variant : variants)
    m.impl(variant.out,
           torch::CppFunction::makeFromBoxedFunction<&computeInto>());
}
