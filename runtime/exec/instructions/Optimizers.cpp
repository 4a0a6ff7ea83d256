//===- Optimizers.cpp - Updates of shards in place ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch's fused multi-tensor kernels, the ones that torch.optim uses with
// fused=True. They take addresses, not strides: operands are contiguous. What
// is stored in another form than it is computed in, and kinds that have no such
// kernel, BlockUpdates.cpp updates.
//
//===----------------------------------------------------------------------===//

#include "runtime/exec/instructions/BlockUpdates.h"

#include "plan/Shape.h"
#include "support/Error.h"
#include "support/Optimizers.h"

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

  /// Those of list `number` in `values`, which has one list behind the other;
  /// none of a list that is not there.
  c10::List<at::Tensor> list(const std::vector<uint32_t> &values,
                             size_t number = 0) const {
    c10::List<at::Tensor> tensors;
    size_t first = number * params.size();
    for (size_t i = 0; i < params.size() && first < values.size(); ++i)
      if (p.values[params[i]].numel() != 0)
        tensors.push_back(p.values[values[first + i]]);
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
                                            const plan::UpdateT &op) {
  UpdateOperands operands(p, op.params);
  OptimizerNumbers own = getFacts(OptimizerKind(op.kind)).fromList(op.numbers);
  return makeComputation(
      p.memory, [params = operands.list(op.params).vec(),
                 gradients = operands.list(op.grads).vec(),
                 buffers = operands.list(op.moments).vec(),
                 lr = p.values[op.lr], scale = optionalValue(p, op.grad_scale),
                 foundInf = optionalValue(p, op.found_inf),
                 momentum = own[OptimizerNumber::momentum],
                 weightDecay = own[OptimizerNumber::weight_decay],
                 nesterov = own[OptimizerNumber::nesterov] != 0] {
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

/// A kernel's schema and its arguments, but for gradients, grad_scale and
/// found_inf.
struct FusedKernel {
  const char *name;
  std::vector<c10::IValue> others;
};

FusedKernel getAdamKernel(const char *name, const Preparation &p,
                          const plan::UpdateT &op,
                          const UpdateOperands &operands,
                          const OptimizerNumbers &own) {
  // self, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, beta1,
  // beta2, weight_decay, eps, amsgrad, maximize
  return {name,
          {operands.list(op.params), operands.list(op.moments, 0),
           operands.list(op.moments, 1), c10::List<at::Tensor>(),
           operands.repeat(static_cast<uint32_t>(op.step)), p.values[op.lr],
           own[OptimizerNumber::beta1], own[OptimizerNumber::beta2],
           own[OptimizerNumber::weight_decay], own[OptimizerNumber::eps], false,
           false}};
}

/// Buffers start at zero, which makes the first step an ordinary one.
FusedKernel getSgdKernel(const Preparation &p, const plan::UpdateT &op,
                         const UpdateOperands &operands,
                         const OptimizerNumbers &own) {
  // self, momentum_buffer_list, weight_decay, momentum, lr, dampening,
  // nesterov, maximize, is_first_step
  return {"aten::_fused_sgd_",
          {operands.list(op.params), operands.list(op.moments),
           own[OptimizerNumber::weight_decay], own[OptimizerNumber::momentum],
           p.values[op.lr], 0.0, own[OptimizerNumber::nesterov] != 0, false,
           false}};
}

/// None: LibTorch has none for the kind.
std::optional<FusedKernel> findKernel(const Preparation &p,
                                      const plan::UpdateT &op,
                                      const UpdateOperands &operands) {
  auto kind = OptimizerKind(op.kind);
  OptimizerNumbers own = getFacts(kind).fromList(op.numbers);
  switch (kind) {
  case OptimizerKind::adamw:
    return getAdamKernel("aten::_fused_adamw_", p, op, operands, own);
  case OptimizerKind::adam:
    return getAdamKernel("aten::_fused_adam_", p, op, operands, own);
  case OptimizerKind::sgd:
    return getSgdKernel(p, op, operands, own);
  default:
    return std::nullopt;
  }
}

} // namespace

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::UpdateT &op) {
  if (needsBlocks(p, op))
    return prepareBlockUpdate(p, op);
  UpdateOperands operands(p, op.params);
  std::optional<FusedKernel> kernel = findKernel(p, op, operands);
  if (!kernel)
    return prepareBlockUpdate(p, op);
  if (OptimizerKind(op.kind) == OptimizerKind::sgd && !op.params.empty() &&
      p.deviceOf(op.params[0]).is_cpu() &&
      c10::isReducedFloatingType(p.values[op.params[0]].scalar_type()))
    return prepareHalfSgd(p, op);
  return std::make_unique<FusedUpdate>(
      p.memory, kernel->name, operands.list(op.grads),
      optionalValue(p, op.grad_scale), optionalValue(p, op.found_inf),
      std::move(kernel->others));
}
