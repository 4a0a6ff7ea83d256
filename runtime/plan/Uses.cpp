//===- Uses.cpp - The values that an instruction names --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/plan/Uses.h"

#include "runtime/plan/Visit.h"
#include "runtime/support/Error.h"

using namespace fsdp;

namespace {

/// Collects indices; -1 stands for an absent value.
class Collector {
public:
  void add(uint32_t value) { values.push_back(value); }
  void addOptional(int32_t value) {
    if (value >= 0)
      add(static_cast<uint32_t>(value));
  }
  void add(const std::vector<uint32_t> &list) {
    values.insert(values.end(), list.begin(), list.end());
  }

  void collect(const plan::CallT &op) {
    for (const auto &arg : op.args)
      for (int32_t value : arg->values)
        addOptional(value);
    for (int32_t value : op.results)
      addOptional(value);
  }
  /// All three transfers.
  template <typename OpTy>
    requires requires(OpTy op) { op.future, op.outputs; }
  void collect(const OpTy &op) {
    add(op.inputs);
    add(op.outputs);
  }
  void collect(const plan::WaitT &) {}
  void collect(const plan::FreeT &op) { add(op.values); }
  void collect(const plan::ZeroPaddingT &op) { add(op.value); }
  void collect(const plan::ShardT &op) {
    add(op.input);
    add(op.output);
  }
  void collect(const plan::AdamT &op) {
    add(op.params);
    add(op.grads);
    add(op.exp_avgs);
    add(op.exp_avg_sqs);
    add(op.step);
    add(op.lr);
    addOptional(op.grad_scale);
    addOptional(op.found_inf);
  }
  void collect(const plan::SgdT &op) {
    add(op.params);
    add(op.grads);
    add(op.momentum_buffers);
    add(op.lr);
    addOptional(op.grad_scale);
    addOptional(op.found_inf);
  }
  void collect(const plan::CopyT &op) {
    add(op.from);
    add(op.to);
  }
  void collect(const plan::RecordEventT &) {}
  void collect(const plan::AwaitEventT &) {}
  void collect(const plan::DrawT &op) {
    add(op.random);
    add(op.output);
    add(op.given);
  }
  void collect(const plan::AccumulateT &op) {
    add(op.gradient);
    add(op.into);
    add(op.output);
  }
  void collect(const plan::PackTensorsT &op) {
    add(op.inputs);
    add(op.output);
  }

  std::vector<uint32_t> values;
};

} // namespace

std::vector<uint32_t> fsdp::namedValues(const plan::InstructionT &instruction) {
  Collector collector;
  if (!visitBody(instruction, [&](const auto &op) { collector.collect(op); }))
    throw Error(ErrorId::ArtifactCorrupted, "an instruction has no known kind");
  return collector.values;
}
