//===- Instructions.cpp - One function for each kind of instruction -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "plan/Uses.h"
#include "runtime/device/Tensors.h"
#include "support/Error.h"

#include <ATen/ops/add.h>

#include <algorithm>
#include <cstring>

using namespace fsdp;
using plan::Body;

char *Preparation::place(uint32_t value) const {
  char *address = shared ? shared->addressOf(program, value) : nullptr;
  return address ? address : arena.at(program.values[value]->offset);
}

std::pair<char *, uint64_t> Preparation::room(uint32_t value) const {
  uint32_t root = rootOf(program, value);
  const plan::ValueT &v = *program.values[root];
  if (v.place == plan::Place::literal)
    return {nullptr, 0};
  return {place(root), v.bytes};
}

namespace {

//===----------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------===//

class AllGather final : public Instruction {
public:
  AllGather(Preparation &p, const plan::AllGatherT &op)
      : communicator(p.transfers.get(op.group, op.stream)),
        label{"all_gather", op.bucket}, future(op.future) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const at::Tensor &shard = p.values[op.inputs[i]];
      members.push_back({shard.data_ptr(),
                         p.values[op.outputs[i]].mutable_data_ptr(),
                         shard.nbytes()});
    }
  }

  void run(StepState &state) override {
    label.step = state.step;
    state.tickets[future] = communicator.startAllGather(members, label);
  }

private:
  Communicator &communicator;
  TransferLabel label;
  uint32_t future;
  std::vector<GatherMember> members;
};

class ReduceScatter final : public Instruction {
public:
  ReduceScatter(Preparation &p, const plan::ReduceScatterT &op)
      : communicator(p.transfers.get(op.group, op.stream)),
        label{"reduce_scatter", op.bucket}, future(op.future),
        combination(op.reduction, op.pre, op.post) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const at::Tensor &shard = p.values[op.outputs[i]];
      members.push_back({p.values[op.inputs[i]].data_ptr(),
                         shard.mutable_data_ptr(),
                         static_cast<size_t>(shard.numel()),
                         p.program.values[op.inputs[i]]->dtype});
    }
  }

  void run(StepState &state) override {
    label.step = state.step;
    state.tickets[future] =
        communicator.startReduceScatter(members, combination, label);
  }

private:
  Communicator &communicator;
  TransferLabel label;
  uint32_t future;
  Combination combination;
  std::vector<ReduceMember> members;
};

class AllReduce final : public Instruction {
public:
  AllReduce(Preparation &p, const plan::AllReduceT &op)
      : communicator(p.transfers.get(op.group, op.stream)),
        label{"all_reduce", op.bucket}, future(op.future),
        combination(op.reduction, op.pre, op.post) {
    for (uint32_t input : op.inputs) {
      const at::Tensor &data = p.values[input];
      members.push_back({data.mutable_data_ptr(),
                         static_cast<size_t>(data.numel()),
                         p.program.values[input]->dtype});
    }
  }

  void run(StepState &state) override {
    label.step = state.step;
    state.tickets[future] =
        communicator.startAllReduce(members, combination, label);
  }

private:
  Communicator &communicator;
  TransferLabel label;
  uint32_t future;
  Combination combination;
  std::vector<AllReduceMember> members;
};

class Wait final : public Instruction {
public:
  Wait(Communicator &communicator, uint32_t future)
      : communicator(communicator), future(future) {}
  void run(StepState &state) override {
    communicator.wait(state.tickets[future]);
  }

private:
  Communicator &communicator;
  uint32_t future;
};

std::unique_ptr<Instruction> prepare(Preparation &p,
                                     const plan::AllGatherT &op) {
  p.futures[op.future] = &p.transfers.get(op.group, op.stream);
  return std::make_unique<AllGather>(p, op);
}

std::unique_ptr<Instruction> prepare(Preparation &p,
                                     const plan::ReduceScatterT &op) {
  p.futures[op.future] = &p.transfers.get(op.group, op.stream);
  return std::make_unique<ReduceScatter>(p, op);
}

std::unique_ptr<Instruction> prepare(Preparation &p,
                                     const plan::AllReduceT &op) {
  p.futures[op.future] = &p.transfers.get(op.group, op.stream);
  for (size_t i = 0; i < op.inputs.size(); ++i)
    p.values[op.outputs[i]] = p.values[op.inputs[i]];
  return std::make_unique<AllReduce>(p, op);
}

std::unique_ptr<Instruction> prepare(Preparation &p, const plan::WaitT &op) {
  return std::make_unique<Wait>(*p.futures[op.future], op.future);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

class ZeroBytes final : public Instruction {
public:
  ZeroBytes(char *begin, size_t bytes) : begin(begin), bytes(bytes) {}
  void run(StepState &) override { std::memset(begin, 0, bytes); }

private:
  char *begin;
  size_t bytes;
};

/// What the host cannot reach.
class ZeroTensor final : public Instruction {
public:
  explicit ZeroTensor(at::Tensor tensor) : tensor(std::move(tensor)) {}
  void run(StepState &) override { tensor.zero_(); }

private:
  at::Tensor tensor;
};

std::unique_ptr<Instruction> prepare(Preparation &p,
                                     const plan::ZeroPaddingT &op) {
  const at::Tensor &value = p.values[op.value];
  int64_t size = p.plan.groups[op.group]->size;
  int64_t rows = value.size(0);
  int64_t padding = shardRows(rows, size) * size - rows;
  if (padding == 0 || rows == 0)
    return nullptr;
  size_t rowBytes = value.nbytes() / static_cast<size_t>(rows);
  char *begin = static_cast<char *>(value.mutable_data_ptr()) + value.nbytes();
  size_t bytes = static_cast<size_t>(padding) * rowBytes;
  if (!p.device.isHost())
    return std::make_unique<ZeroTensor>(
        bytesAt(begin, bytes, p.device.torch()));
  return std::make_unique<ZeroBytes>(begin, bytes);
}

class Shard final : public Computation {
public:
  Shard(RankMemory &memory, at::Tensor rows, at::Tensor to, at::Tensor padding)
      : Computation(memory), rows(std::move(rows)), to(std::move(to)),
        padding(std::move(padding)) {}

private:
  void compute(StepState &) override {
    to.copy_(rows);
    padding.zero_();
  }

  at::Tensor rows, to, padding;
};

std::unique_ptr<Instruction> prepare(Preparation &p, const plan::ShardT &op) {
  const at::Tensor &full = p.values[op.input], &shard = p.values[op.output];
  int64_t position = groupPosition(*p.plan.groups[op.group], p.rank);
  int64_t count = shard.size(op.dim);
  int64_t first = std::min(position * count, full.size(op.dim));
  int64_t own = std::min(count, full.size(op.dim) - first);
  return std::make_unique<Shard>(p.memory, full.narrow(op.dim, first, own),
                                 shard.narrow(op.dim, 0, own),
                                 shard.narrow(op.dim, own, count - own));
}

class Copy final : public Computation {
public:
  Copy(RankMemory &memory, at::Tensor from, at::Tensor to)
      : Computation(memory), from(std::move(from)), to(std::move(to)) {}

private:
  void compute(StepState &) override { to.copy_(from); }

private:
  at::Tensor from, to;
};

std::unique_ptr<Instruction> prepare(Preparation &p, const plan::CopyT &op) {
  return std::make_unique<Copy>(p.memory, p.values[op.from], p.values[op.to]);
}

class Accumulate final : public Computation {
public:
  Accumulate(RankMemory &memory, at::Tensor gradient, at::Tensor into,
             at::Tensor output, uint32_t divisor)
      : Computation(memory), gradient(std::move(gradient)),
        into(std::move(into)), output(std::move(output)), divisor(divisor) {}

private:
  void compute(StepState &) override {
    at::add_out(output, into, gradient);
    if (divisor != 1)
      output.div_(static_cast<int64_t>(divisor));
  }

  at::Tensor gradient, into, output;
  uint32_t divisor;
};

std::unique_ptr<Instruction> prepare(Preparation &p,
                                     const plan::AccumulateT &op) {
  const at::Tensor &gradient = p.values[op.gradient], &into = p.values[op.into];
  // The plan puts the sum in the place of one of them.
  bool grows = p.room(op.output).first == p.room(op.into).first;
  at::Tensor output = grows ? into : gradient;
  p.values[op.output] = output;
  return std::make_unique<Accumulate>(p.memory, gradient, into,
                                      std::move(output), op.divisor);
}

/// Addresses are the plan's: there is nothing to give back.
std::unique_ptr<Instruction> prepare(Preparation &, const plan::FreeT &) {
  return nullptr;
}

} // namespace

//===----------------------------------------------------------------------===//
// The table of kinds
//===----------------------------------------------------------------------===//

std::unique_ptr<Instruction>
fsdp::prepareInstruction(Preparation &preparation,
                         const plan::InstructionT &instruction) {
  const plan::BodyUnion &body = instruction.body;
  switch (body.type) {
  case Body::Call:
    return prepareCall(preparation, *body.AsCall());
  case Body::AllGather:
    return prepare(preparation, *body.AsAllGather());
  case Body::ReduceScatter:
    return prepare(preparation, *body.AsReduceScatter());
  case Body::AllReduce:
    return prepare(preparation, *body.AsAllReduce());
  case Body::Wait:
    return prepare(preparation, *body.AsWait());
  case Body::Free:
    return prepare(preparation, *body.AsFree());
  case Body::ZeroPadding:
    return prepare(preparation, *body.AsZeroPadding());
  case Body::Shard:
    return prepare(preparation, *body.AsShard());
  case Body::Adam:
    return prepareAdam(preparation, *body.AsAdam());
  case Body::Sgd:
    return prepareSgd(preparation, *body.AsSgd());
  case Body::Copy:
    return prepare(preparation, *body.AsCopy());
  case Body::Draw:
    return prepareDraw(preparation, *body.AsDraw());
  case Body::Accumulate:
    return prepare(preparation, *body.AsAccumulate());
  case Body::PackTensors:
    return preparePack(preparation, *body.AsPackTensors());
  case Body::NONE:
    break;
  }
  throw Error(ErrorId::ArtifactCorrupted, "an instruction has no known kind");
}
