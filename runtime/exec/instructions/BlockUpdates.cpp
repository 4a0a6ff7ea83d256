//===- BlockUpdates.cpp - Updates of what is stored otherwise -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/instructions/BlockUpdates.h"

#include "support/BlockCodes.h"
#include "support/Error.h"

#include <functional>

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
    if (maxima.defined() || op.rounding)
      tensor.runs = listRuns(p.plan, op.of[i], p.rank);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

static PreparedUpdate makeUpdate(const Preparation &p, const plan::UpdateT &op,
                                 const at::Tensor &maxima) {
  auto kind = OptimizerKind(op.kind);
  PreparedUpdate update;
  update.rule = {kind, getFacts(kind).fromList(op.numbers)};
  update.lr = valueOf(p, int32_t(op.lr));
  update.step = valueOf(p, op.step);
  update.gradScale = valueOf(p, op.grad_scale);
  update.foundInf = valueOf(p, op.found_inf);
  update.tensors = listTensors(p, op, maxima);
  if (op.rounding)
    update.seed = op.rounding_seed;
  return update;
}

static UpdateNumbers readNumbers(const PreparedUpdate &update) {
  UpdateNumbers numbers;
  if (update.lr.defined())
    numbers.lr = update.lr.item<double>();
  if (update.step.defined())
    numbers.step = update.step.item<double>();
  if (update.gradScale.defined())
    numbers.gradScale = update.gradScale.item<float>();
  return numbers;
}

/// Calls `function` with each tensor, its gradient in row-major order.
template <typename Function>
static void forEachTensor(const PreparedUpdate &update, Function function) {
  for (const UpdatedTensor &tensor : update.tensors) {
    if (tensor.grad.is_contiguous()) {
      function(tensor);
      continue;
    }
    UpdatedTensor copy = tensor;
    copy.grad = tensor.grad.contiguous();
    function(copy);
  }
}

static void run(const PreparedUpdate &update) {
  if (update.foundInf.defined() && update.foundInf.item<float>() == 1)
    return;
  UpdateNumbers numbers = readNumbers(update);
  // What has no elements here has blocks elsewhere.
  if (update.found.defined())
    update.found.zero_();
  forEachTensor(update, [&](const UpdatedTensor &tensor) {
    if (update.found.defined())
      findMaxima(update.rule, numbers, tensor);
    else
      fsdp::update(update.rule, numbers, tensor, update.seed);
  });
}

/// Where the parameters are: on the host, or as the device does it.
static std::unique_ptr<Instruction>
place(const Preparation &p, const std::vector<uint32_t> &params,
      const std::function<std::unique_ptr<Instruction>()> &prepareOnDevice,
      const std::function<PreparedUpdate()> &make) {
  if (!params.empty() && !p.deviceOf(params[0]).is_cpu()) {
    if (auto own = prepareOnDevice())
      return own;
    throw Error(ErrorId::RuntimeUnsupported,
                "optimizer.state_dtype and optimizer.stochastic_rounding are "
                "not computed on this device; compile with "
                "fsdp_config.offload_optimizer, or without them");
  }
  PreparedUpdate update = make();
  for (UpdatedTensor &tensor : update.tensors)
    tensor.cut();
  return makeComputation(p.memory,
                         [update = std::move(update)] { run(update); });
}

bool fsdp::needsBlocks(const Preparation &p, const plan::UpdateT &op) {
  // LibTorch's round the last elements of a shard in another way.
  if (op.rounding || p.plan.training->grains != 0)
    return true;
  return !op.moments.empty() && p.values[op.moments[0]].scalar_type() !=
                                    p.values[op.params[0]].scalar_type();
}

PreparedUpdate fsdp::makePreparedUpdate(const Preparation &p,
                                        const plan::UpdateT &op) {
  return makeUpdate(p, op, valueOf(p, op.maxima));
}

PreparedUpdate fsdp::makePreparedUpdate(const Preparation &p,
                                        const plan::BlockMaximaT &op) {
  plan::UpdateT same;
  same.kind = op.kind;
  same.numbers = op.numbers;
  same.params = op.params;
  same.grads = op.grads;
  same.moments = op.moments;
  same.scales = op.scales;
  same.of = op.of;
  same.grad_scale = op.grad_scale;
  PreparedUpdate update = makeUpdate(p, same, p.values[op.output]);
  update.lr = at::Tensor(); // moments do not depend on it
  update.found = p.values[op.output];
  return update;
}

std::unique_ptr<Instruction> fsdp::prepareBlockUpdate(Preparation &p,
                                                      const plan::UpdateT &op) {
  return place(
      p, op.params, [&] { return p.device.prepareUpdate(p, op); },
      [&] { return makePreparedUpdate(p, op); });
}

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::BlockMaximaT &op) {
  return place(
      p, op.params, [&] { return p.device.prepareMaxima(p, op); },
      [&] { return makePreparedUpdate(p, op); });
}
