//===- FarWitness.cpp - Instructions as a device has them -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "FarWitness.h"

#include "FakeDriver.h"
#include "plan/Instructions.h"

#include <c10/core/InferenceMode.h>

#include <stdexcept>
#include <utility>

using namespace fsdp;
using namespace fsdp::test;

namespace {

/// From the first byte of a tensor to behind its last one.
std::pair<const char *, size_t> extentOfTensor(const at::Tensor &tensor) {
  if (!tensor.defined() || tensor.numel() == 0)
    return {nullptr, 0};
  int64_t last = 0;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim)
    last += (tensor.size(dim) - 1) * tensor.stride(dim);
  return {static_cast<const char *>(tensor.const_data_ptr()),
          static_cast<size_t>(last + 1) * tensor.element_size()};
}

std::string nameOf(const Preparation &p, uint32_t value) {
  const plan::ValueT &root = *p.program.values[rootOf(p.program, value)];
  std::string name = "%" + std::to_string(value);
  if (root.place == plan::Place::state)
    return name + " '" + p.plan.states[root.state]->name + "'";
  for (const auto &binding : p.program.arguments)
    if (rootOf(p.program, binding->value) == rootOf(p.program, value) &&
        binding->input >= 0)
      return name + " '" + p.plan.inputs[binding->input]->name + "'";
  return name;
}

/// Names itself while it runs.
class Issuing final : public Instruction {
public:
  Issuing(Issuer issuer, std::unique_ptr<Instruction> inner)
      : issuer(std::move(issuer)), inner(std::move(inner)) {}
  void run(StepState &state) override {
    const Issuer *before = std::exchange(SimulatedDevice::issuer(), &issuer);
    try {
      inner->run(state);
    } catch (...) {
      SimulatedDevice::issuer() = before;
      throw;
    }
    SimulatedDevice::issuer() = before;
  }
  void rehearse(StepState &state) override { inner->rehearse(state); }
  bool needsHost() const override { return inner->needsHost(); }

private:
  const Issuer issuer;
  const std::unique_ptr<Instruction> inner;
};

/// What puts itself on its stream, by the driver.
class ByDriver final : public Instruction {
public:
  explicit ByDriver(std::unique_ptr<Instruction> inner)
      : inner(std::move(inner)) {}
  void run(StepState &state) override {
    FakeDriver::Launches launches;
    inner->run(state);
    launches.put();
  }
  void rehearse(StepState &state) override {
    FakeDriver::Rehearsal rehearsal;
    inner->rehearse(state);
  }

private:
  const std::unique_ptr<Instruction> inner;
};

/// What the host computes. Its temporaries are no memory of the device's, where
/// work that was put before may still have its own.
class OnHost final : public Instruction {
public:
  OnHost(SimulatedDevice &device, std::vector<ByteUse> uses,
         std::unique_ptr<Instruction> inner)
      : device(device), uses(std::move(uses)), inner(std::move(inner)) {}
  void run(StepState &state) override {
    for (const ByteUse &use : uses)
      device.hostUses(use);
    RankMemory::Current current(memory);
    inner->run(state);
  }
  void rehearse(StepState &state) override {
    RankMemory::Current current(memory);
    inner->rehearse(state);
  }
  bool needsHost() const override { return inner->needsHost(); }

private:
  SimulatedDevice &device;
  RankMemory memory;
  const std::vector<ByteUse> uses;
  const std::unique_ptr<Instruction> inner;
};

/// A kernel, which runs when the device comes to it.
class OnStream final : public Instruction {
public:
  OnStream(SimulatedDevice &device, RankMemory &memory,
           std::vector<ByteUse> uses, std::string what,
           std::unique_ptr<Instruction> inner)
      : device(device), memory(memory), uses(std::move(uses)),
        what(std::move(what) + ", of its temporaries,"),
        inner(std::move(inner)) {}
  void run(StepState &state) override {
    StepState now;
    now.step = state.step;
    now.microBatch = state.microBatch;
    std::vector<ByteUse> scratch;
    for (RankMemory::Bytes part : inner->temporaries())
      scratch.push_back({part.data(), part.size(), true, what});
    device.putKernel(
        SimulatedDevice::current(),
        [this, now]() mutable {
          c10::InferenceMode guard;
          RankMemory::Current current(memory);
          inner->run(now);
        },
        uses, std::move(scratch));
  }
  void rehearse(StepState &state) override { inner->rehearse(state); }
  bool needsHost() const override { return inner->needsHost(); }

private:
  SimulatedDevice &device;
  RankMemory &memory;
  const std::vector<ByteUse> uses;
  const std::string what;
  const std::unique_ptr<Instruction> inner;
};

} // namespace

std::unique_ptr<Instruction>
FarWitness::stand(const Preparation &p, const plan::InstructionT &instruction,
                  bool isBeside, std::string what,
                  std::unique_ptr<Instruction> prepared) {
  if (!prepared)
    return nullptr;
  Issuer issuer{"rank " + std::to_string(p.rank) + ", program " +
                    p.program.name + ", instruction " +
                    std::to_string(p.instructionIndex) + ", " + what,
                {}};
  std::vector<ByteUse> uses;
  Operands operands;
  visitBody(instruction, [&](const auto &op) { listOperands(op, operands); });
  for (auto [access, number] : operands) {
    auto value = static_cast<uint32_t>(number);
    const plan::ValueT &root = *p.program.values[rootOf(p.program, value)];
    auto [begin, bytes] = extentOfTensor(p.values[value]);
    if (access == Access::end || !bytes)
      continue;
    if (root.place == plan::Place::literal) {
      // Nobody writes it; it lies beside all else.
      issuer.values.push_back({begin, bytes, "a constant"});
      continue;
    }
    if (isBeside && !p.isBeside(value))
      throw std::logic_error(issuer.what + ": the host reaches for " +
                             nameOf(p, value) + " on the device");
    std::string name = nameOf(p, value);
    if (access == Access::pad) {
      auto [room, roomBytes] = p.room(value);
      const char *end = room + roomBytes;
      uses.push_back({begin + bytes, static_cast<size_t>(end - begin) - bytes,
                      true, issuer.what + ", of " + name + "'s padding,"});
      continue;
    }
    issuer.values.push_back({begin, bytes, name});
    if (reads(access))
      uses.push_back({begin, bytes, false, issuer.what + ", of " + name + ","});
    if (writes(access) || access == Access::spend)
      uses.push_back({begin, bytes, true, issuer.what + ", of " + name + ","});
  }
  bool issues =
      flightOf(instruction) || instruction.body.type == plan::Body::Wait;
  if (!issues && isBeside)
    prepared =
        std::make_unique<OnHost>(*device, std::move(uses), std::move(prepared));
  else if (instruction.body.type == plan::Body::Kernel)
    prepared = std::make_unique<ByDriver>(std::move(prepared));
  else if (!issues)
    prepared = std::make_unique<OnStream>(*device, p.memory, std::move(uses),
                                          issuer.what, std::move(prepared));
  return std::make_unique<Issuing>(std::move(issuer), std::move(prepared));
}
