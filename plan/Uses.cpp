//===- Uses.cpp - The values that an instruction names --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Uses.h"

#include "plan/Visit.h"
#include "support/Error.h"

using namespace fsdp;

namespace {

using Values = std::vector<uint32_t>;

void append(Values &to, const Values &list) {
  to.insert(to.end(), list.begin(), list.end());
}

/// Collects indices; -1 stands for an absent value.
class Collector {
public:
  void collect(const plan::CallT &op) {
    for (const auto &arg : op.args)
      for (int32_t value : arg->values)
        readOptional(value);
    for (int32_t value : op.results)
      if (value >= 0)
        write(static_cast<uint32_t>(value));
  }
  /// All three transfers.
  template <typename OpTy>
    requires requires(OpTy op) { op.future, op.outputs; }
  void collect(const OpTy &op) {
    read(op.inputs);
    append(found.writes, op.outputs);
  }
  void collect(const plan::WaitT &) {}
  void collect(const plan::FreeT &op) { append(found.others, op.values); }
  void collect(const plan::ZeroPaddingT &op) {
    found.others.push_back(op.value);
  }
  void collect(const plan::ShardT &op) {
    read(op.input);
    write(op.output);
  }
  void collect(const plan::AdamT &op) {
    change(op.params);
    read(op.grads);
    change(op.exp_avgs);
    change(op.exp_avg_sqs);
    read(op.step);
    read(op.lr);
    readOptional(op.grad_scale);
    readOptional(op.found_inf);
  }
  void collect(const plan::SgdT &op) {
    change(op.params);
    read(op.grads);
    change(op.momentum_buffers);
    read(op.lr);
    readOptional(op.grad_scale);
    readOptional(op.found_inf);
  }
  void collect(const plan::CopyT &op) {
    read(op.from);
    write(op.to);
  }
  void collect(const plan::DrawT &op) {
    read(op.random);
    read(op.given);
    write(op.output);
  }
  void collect(const plan::AccumulateT &op) {
    read(op.gradient);
    read(op.into);
    write(op.output);
  }
  void collect(const plan::PackTensorsT &op) {
    read(op.inputs);
    write(op.output);
  }

  Accesses found;

private:
  void read(uint32_t value) { found.reads.push_back(value); }
  void read(const Values &list) { append(found.reads, list); }
  void readOptional(int32_t value) {
    if (value >= 0)
      read(static_cast<uint32_t>(value));
  }
  void write(uint32_t value) { found.writes.push_back(value); }
  void change(const Values &list) {
    read(list);
    append(found.writes, list);
  }
};

} // namespace

Accesses fsdp::accessesOf(const plan::InstructionT &instruction) {
  Collector collector;
  if (!visitBody(instruction, [&](const auto &op) { collector.collect(op); }))
    throw Error(ErrorId::ArtifactCorrupted, "an instruction has no known kind");
  return std::move(collector.found);
}

std::vector<uint32_t> fsdp::namedValues(const plan::InstructionT &instruction) {
  Accesses found = accessesOf(instruction);
  append(found.reads, found.writes);
  append(found.reads, found.others);
  return std::move(found.reads);
}
