//===- Optimizers.cpp - Updates of shards in place ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch's fused multi-tensor kernels, the ones that torch.optim uses with
// fused=True. They take addresses, not strides: operands are contiguous. What
// is stored in another form than it is computed in, BlockUpdates.cpp updates.
//
//===----------------------------------------------------------------------===//

#include "runtime/exec/instructions/BlockUpdates.h"

#include "plan/Shape.h"
#include "support/Error.h"

#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

using namespace fsdp;

namespace {

/// The tensors that one update works on, empty ones left out.
class UpdateOperands {
public:
  UpdateOperands(const Preparation &p, const std::vector<uint32_t> &params)
      : p(p), params(params) {}

  c10::List<at::Tensor> list(const std::vector<uint32_t> &values) const {
    c10::List<at::Tensor> tensors;
    for (size_t i = 0; i < values.size(); ++i)
      if (p.values[params[i]].numel() != 0)
        tensors.push_back(p.values[values[i]]);
    return tensors;
  }

  c10::List<at::Tensor> repeat(uint32_t value) const {
    c10::List<at::Tensor> tensors;
    for (uint32_t param : params)
      if (p.values[param].numel() != 0)
        tensors.push_back(p.values[value]);
    return tensors;
  }

private:
  const Preparation &p;
  const std::vector<uint32_t> &params;
};

class FusedUpdate final : public Computation {
public:
  /// `arguments` is without the gradients, which stand at index 1, and without
  /// grad_scale and found_inf, the last two. `scale` and `foundInf` may be
  /// undefined.
  FusedUpdate(RankMemory &memory, const char *op,
              c10::List<at::Tensor> gradients, at::Tensor scale,
              const at::Tensor &foundInf, std::vector<c10::IValue> others)
      : Computation(memory),
        handle(c10::Dispatcher::singleton().findSchemaOrThrow(op, "tensor_lr")),
        gradients(std::move(gradients)), arguments(std::move(others)) {
    for (const at::Tensor &gradient : this->gradients.vec())
      isContiguous &= gradient.is_contiguous();
    arguments.insert(arguments.begin() + 1, this->gradients);
    // The kernels read the scale as float32; in float64 that would lose half
    // of the digits that the model is trained in.
    bool fits =
        scale.defined() && scale.scalar_type() == c10::ScalarType::Float;
    arguments.push_back(fits ? c10::IValue(scale) : c10::IValue());
    arguments.push_back(foundInf.defined() ? c10::IValue(foundInf)
                                           : c10::IValue());
    if (scale.defined() && !fits)
      divisor = std::move(scale);
  }

private:
  void compute(StepState &) override {
    if (gradients.empty())
      return;
    if (divisor.defined())
      for (const at::Tensor &gradient : gradients.vec())
        gradient.div_(divisor);
    stack = arguments;
    if (!isContiguous) {
      c10::List<at::Tensor> copies;
      for (const at::Tensor &gradient : gradients.vec())
        copies.push_back(gradient.contiguous());
      stack[1] = copies;
    }
    handle.callBoxed(stack);
    stack.clear();
  }

  c10::OperatorHandle handle;
  c10::List<at::Tensor> gradients;
  at::Tensor divisor;
  bool isContiguous = true;
  std::vector<c10::IValue> arguments;
  torch::jit::Stack stack;
};

at::Tensor optionalValue(const Preparation &p, int32_t value) {
  return value < 0 ? at::Tensor() : p.values[value];
}

/// SGD in half precision, in the order of torch.optim.SGD's own loop: on the
/// CPU LibTorch 2.11's fused kernel leaves all but the last few elements of a
/// bf16 or f16 tensor nearly where they are.
std::unique_ptr<Instruction> prepareHalfSgd(const Preparation &p,
                                            const plan::SgdT &op) {
  UpdateOperands operands(p, op.params);
  return makeComputation(
      p.memory,
      [params = operands.list(op.params).vec(),
       gradients = operands.list(op.grads).vec(),
       buffers = operands.list(op.momentum_buffers).vec(), lr = p.values[op.lr],
       scale = optionalValue(p, op.grad_scale),
       foundInf = optionalValue(p, op.found_inf), momentum = op.momentum,
       weightDecay = op.weight_decay, nesterov = op.nesterov] {
        if (foundInf.defined() && foundInf.item<float>() == 1)
          return;
        double rate = lr.item<double>();
        for (size_t i = 0; i < params.size(); ++i) {
          // Nobody reads the gradient afterwards.
          const at::Tensor &gradient = gradients[i];
          if (scale.defined())
            gradient.div_(scale);
          if (weightDecay != 0)
            gradient.add_(params[i], weightDecay);
          if (momentum == 0) {
            params[i].add_(gradient, -rate);
            continue;
          }
          buffers[i].mul_(momentum).add_(gradient);
          if (nesterov)
            gradient.add_(buffers[i], momentum);
          params[i].add_(nesterov ? gradient : buffers[i], -rate);
        }
      });
}

/// What both kinds have.
template <typename Op>
BlockUpdateOperands getBlockOperands(const Op &op) {
  BlockUpdateOperands blocks;
  blocks.params = op.params;
  blocks.grads = op.grads;
  blocks.scales = op.scales;
  blocks.of = op.of;
  blocks.maxima = op.maxima;
  blocks.lr = static_cast<int32_t>(op.lr);
  blocks.gradScale = op.grad_scale;
  blocks.foundInf = op.found_inf;
  if (op.rounding)
    blocks.roundingSeed = op.rounding_seed;
  return blocks;
}

} // namespace

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::AdamT &op) {
  BlockUpdateOperands blocks = getBlockOperands(op);
  blocks.rule = {op.kind == plan::AdamKind::adamw ? plan::OptimizerKind::adamw
                                                  : plan::OptimizerKind::adam,
                 op.beta1, op.beta2, op.eps, op.weight_decay};
  blocks.moments = op.exp_avgs;
  blocks.moments.insert(blocks.moments.end(), op.exp_avg_sqs.begin(),
                        op.exp_avg_sqs.end());
  blocks.step = static_cast<int32_t>(op.step);
  if (needsBlocks(p, blocks))
    return prepareBlockUpdate(p, blocks);
  UpdateOperands operands(p, op.params);
  // self, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, beta1,
  // beta2, weight_decay, eps, amsgrad, maximize
  std::vector<c10::IValue> others{operands.list(op.params),
                                  operands.list(op.exp_avgs),
                                  operands.list(op.exp_avg_sqs),
                                  c10::List<at::Tensor>(),
                                  operands.repeat(op.step),
                                  p.values[op.lr],
                                  op.beta1,
                                  op.beta2,
                                  op.weight_decay,
                                  op.eps,
                                  false,
                                  false};
  const char *name = op.kind == plan::AdamKind::adamw ? "aten::_fused_adamw_"
                                                      : "aten::_fused_adam_";
  return std::make_unique<FusedUpdate>(
      p.memory, name, operands.list(op.grads), optionalValue(p, op.grad_scale),
      optionalValue(p, op.found_inf), std::move(others));
}

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::SgdT &op) {
  BlockUpdateOperands blocks = getBlockOperands(op);
  blocks.rule = {plan::OptimizerKind::sgd, 0,           0,          0,
                 op.weight_decay,          op.momentum, op.nesterov};
  blocks.moments = op.momentum_buffers;
  blocks.step = op.step;
  if (needsBlocks(p, blocks))
    return prepareBlockUpdate(p, blocks);
  UpdateOperands operands(p, op.params);
  if (!op.params.empty() && p.deviceOf(op.params[0]).is_cpu() &&
      c10::isReducedFloatingType(p.values[op.params[0]].scalar_type()))
    return prepareHalfSgd(p, op);
  // self, momentum_buffer_list, weight_decay, momentum, lr, dampening,
  // nesterov, maximize, is_first_step. Buffers start at zero, which makes the
  // first step an ordinary one.
  std::vector<c10::IValue> others{operands.list(op.params),
                                  op.momentum != 0
                                      ? operands.list(op.momentum_buffers)
                                      : c10::List<at::Tensor>(),
                                  op.weight_decay,
                                  op.momentum,
                                  p.values[op.lr],
                                  0.0,
                                  op.nesterov,
                                  false,
                                  false};
  return std::make_unique<FusedUpdate>(
      p.memory, "aten::_fused_sgd_", operands.list(op.grads),
      optionalValue(p, op.grad_scale), optionalValue(p, op.found_inf),
      std::move(others));
}
