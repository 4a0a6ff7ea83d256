//===- BlockUpdates.cpp - Updates of what is stored otherwise -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/instructions/BlockUpdates.h"

#include "support/BlockCodes.h"
#include "support/Error.h"

using namespace fsdp;

/// Operands that are there, as tensors.
static at::Tensor valueOf(const Preparation &p, int32_t value) {
  return value < 0 ? at::Tensor() : p.values[value];
}

/// The tensors of an update that have elements. `maxima`: undefined, or the
/// numbers of all scales, one behind the other.
static std::vector<UpdatedTensor>
listTensors(const Preparation &p, const BlockUpdateOperands &operands,
            const at::Tensor &maxima) {
  size_t count = operands.params.size();
  for (size_t i = 0; i < count; ++i)
    if (!p.deviceOf(operands.params[i]).is_cpu())
      throw Error(ErrorId::RuntimeUnsupported,
                  "optimizer.state_dtype and optimizer.stochastic_rounding are "
                  "computed on the host alone, and the artifact has them on a "
                  "GPU; compile with fsdp_config.offload_optimizer, or "
                  "without them");
  std::vector<UpdatedTensor> tensors;
  for (size_t i = 0; i < count; ++i) {
    UpdatedTensor tensor;
    tensor.param = p.values[operands.params[i]];
    tensor.grad = p.values[operands.grads[i]];
    int64_t at = 0;
    for (size_t j = 0; j < operands.moments.size(); ++j) {
      at::Tensor scale =
          operands.scales.empty() ? at::Tensor() : p.values[operands.scales[j]];
      if (j % count == i) {
        tensor.moments.push_back(p.values[operands.moments[j]]);
        if (scale.defined())
          tensor.scales.push_back(scale);
        if (maxima.defined())
          tensor.maxima.push_back(maxima.narrow(0, at, scale.numel()));
      }
      at += scale.defined() ? scale.numel() : 0;
    }
    if (tensor.param.numel() == 0)
      continue;
    std::vector<ElementRun> runs;
    if (maxima.defined() || operands.roundingSeed)
      runs = listRuns(p.plan, operands.of[i], p.rank);
    tensor.pieces =
        maxima.defined() ? cutByWhole(runs) : cutEvenly(tensor.param.numel());
    if (operands.roundingSeed)
      tensor.runs = std::move(runs);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

namespace {

/// Of a step: what tensors with one number hold.
struct NumberOperands {
  at::Tensor lr, step, gradScale, foundInf; ///< each may be undefined

  NumberOperands(const Preparation &p, const BlockUpdateOperands &operands)
      : lr(valueOf(p, operands.lr)), step(valueOf(p, operands.step)),
        gradScale(valueOf(p, operands.gradScale)),
        foundInf(valueOf(p, operands.foundInf)) {}

  UpdateNumbers read() const {
    UpdateNumbers numbers;
    if (lr.defined())
      numbers.lr = lr.item<double>();
    if (step.defined())
      numbers.step = step.item<double>();
    if (gradScale.defined())
      numbers.gradScale = gradScale.item<float>();
    return numbers;
  }

  bool leavesOut() const {
    return foundInf.defined() && foundInf.item<float>() == 1;
  }
};

/// With gradients in row-major order.
UpdatedTensor makeContiguous(UpdatedTensor tensor) {
  tensor.grad = tensor.grad.contiguous();
  return tensor;
}

} // namespace

bool fsdp::needsBlocks(const Preparation &p,
                       const BlockUpdateOperands &operands) {
  // LibTorch's round the last elements of a shard in another way.
  if (operands.roundingSeed || p.plan.training->grains != 0)
    return true;
  return !operands.moments.empty() &&
         p.values[operands.moments[0]].scalar_type() !=
             p.values[operands.params[0]].scalar_type();
}

std::unique_ptr<Instruction>
fsdp::prepareBlockUpdate(const Preparation &p,
                         const BlockUpdateOperands &operands) {
  return makeComputation(
      p.memory,
      [rule = operands.rule, seed = operands.roundingSeed,
       numbers = NumberOperands(p, operands),
       tensors = listTensors(p, operands, valueOf(p, operands.maxima))] {
        if (numbers.leavesOut())
          return;
        UpdateNumbers now = numbers.read();
        for (const UpdatedTensor &tensor : tensors)
          update(rule, now, makeContiguous(tensor), seed);
      });
}

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::BlockMaximaT &op) {
  BlockUpdateOperands operands;
  operands.rule = {op.kind, op.beta1,        op.beta2,
                   0,       op.weight_decay, op.momentum};
  operands.params = op.params;
  operands.grads = op.grads;
  operands.moments = op.moments;
  operands.scales = op.scales;
  operands.of = op.of;
  operands.gradScale = op.grad_scale;
  at::Tensor output = p.values[op.output];
  return makeComputation(p.memory,
                         [rule = operands.rule, output,
                          numbers = NumberOperands(p, operands),
                          tensors = listTensors(p, operands, output)] {
                           // What has no elements here has blocks elsewhere.
                           output.zero_();
                           UpdateNumbers now = numbers.read();
                           for (const UpdatedTensor &tensor : tensors)
                             findMaxima(rule, now, makeContiguous(tensor));
                         });
}
