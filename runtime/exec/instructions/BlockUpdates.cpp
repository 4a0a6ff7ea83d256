//===- BlockUpdates.cpp - Updates of what is stored otherwise -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/instructions/BlockUpdates.h"

#include "runtime/optimize/BlockUpdate.h"
#include "support/BlockCodes.h"
#include "support/Error.h"

using namespace fsdp;

/// Operands that are there, as tensors.
static at::Tensor valueOf(const Preparation &p, int32_t value) {
  return value < 0 ? at::Tensor() : p.values[value];
}

/// The tensors of an update that have elements. `maxima`: undefined, or the
/// numbers of all scales, one behind the other.
static std::vector<UpdatedTensor> listTensors(const Preparation &p,
                                              const plan::UpdateT &op,
                                              const at::Tensor &maxima) {
  size_t count = op.params.size();
  for (size_t i = 0; i < count; ++i)
    if (!p.deviceOf(op.params[i]).is_cpu())
      throw Error(ErrorId::RuntimeUnsupported,
                  "optimizer.state_dtype and optimizer.stochastic_rounding are "
                  "computed on the host alone, and the artifact has them on a "
                  "GPU; compile with fsdp_config.offload_optimizer, or "
                  "without them");
  std::vector<UpdatedTensor> tensors;
  for (size_t i = 0; i < count; ++i) {
    UpdatedTensor tensor;
    tensor.param = p.values[op.params[i]];
    tensor.grad = p.values[op.grads[i]];
    int64_t at = 0;
    for (size_t j = 0; j < op.moments.size(); ++j) {
      at::Tensor scale =
          op.scales.empty() ? at::Tensor() : p.values[op.scales[j]];
      if (j % count == i) {
        tensor.moments.push_back(p.values[op.moments[j]]);
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
    if (maxima.defined() || op.rounding)
      runs = listRuns(p.plan, op.of[i], p.rank);
    tensor.pieces =
        maxima.defined() ? cutByWhole(runs) : cutEvenly(tensor.param.numel());
    if (op.rounding)
      tensor.runs = std::move(runs);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

namespace {

/// Of a step: what tensors with one number hold.
struct NumberOperands {
  at::Tensor lr, step, gradScale, foundInf; ///< each may be undefined

  NumberOperands(const Preparation &p, const plan::UpdateT &op)
      : lr(valueOf(p, int32_t(op.lr))), step(valueOf(p, op.step)),
        gradScale(valueOf(p, op.grad_scale)),
        foundInf(valueOf(p, op.found_inf)) {}

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

UpdateRule getRule(const plan::UpdateT &op) {
  auto kind = OptimizerKind(op.kind);
  return {kind, getFacts(kind).fromList(op.numbers)};
}

/// With gradients in row-major order.
UpdatedTensor makeContiguous(UpdatedTensor tensor) {
  tensor.grad = tensor.grad.contiguous();
  return tensor;
}

} // namespace

bool fsdp::needsBlocks(const Preparation &p, const plan::UpdateT &op) {
  // LibTorch's round the last elements of a shard in another way.
  if (op.rounding || p.plan.training->grains != 0)
    return true;
  return !op.moments.empty() && p.values[op.moments[0]].scalar_type() !=
                                    p.values[op.params[0]].scalar_type();
}

std::unique_ptr<Instruction> fsdp::prepareBlockUpdate(const Preparation &p,
                                                      const plan::UpdateT &op) {
  return makeComputation(
      p.memory,
      [rule = getRule(op),
       seed = op.rounding ? std::optional(op.rounding_seed) : std::nullopt,
       numbers = NumberOperands(p, op),
       tensors = listTensors(p, op, valueOf(p, op.maxima))] {
        if (numbers.leavesOut())
          return;
        UpdateNumbers now = numbers.read();
        for (const UpdatedTensor &tensor : tensors)
          update(rule, now, makeContiguous(tensor), seed);
      });
}

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::BlockMaximaT &op) {
  plan::UpdateT update;
  update.kind = op.kind;
  update.numbers = op.numbers;
  update.params = op.params;
  update.grads = op.grads;
  update.moments = op.moments;
  update.scales = op.scales;
  update.of = op.of;
  update.grad_scale = op.grad_scale;
  NumberOperands numbers(p, update);
  numbers.lr = at::Tensor(); // moments do not depend on it
  at::Tensor output = p.values[op.output];
  return makeComputation(p.memory, [rule = getRule(update), output, numbers,
                                    tensors = listTensors(p, update, output)] {
    // What has no elements here has blocks elsewhere.
    output.zero_();
    UpdateNumbers now = numbers.read();
    for (const UpdatedTensor &tensor : tensors)
      findMaxima(rule, now, makeContiguous(tensor));
  });
}
