//===- EmitContext.cpp - Tables that programs share -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/SourcePlace.h"
#include "passes/emit/EmitProgram.h"

using namespace mlir;
using namespace fsdp;

uint32_t EmitContext::getGroup(GroupAttr group) {
  auto [it, isNew] = groups.try_emplace(group, plan.groups.size());
  if (isNew) {
    auto entry = std::make_unique<plan::GroupT>();
    entry->name = group.getName().str();
    entry->size = static_cast<uint32_t>(group.getSize());
    entry->stride = static_cast<uint32_t>(group.getStride());
    plan.groups.push_back(std::move(entry));
  }
  return it->second;
}

uint32_t EmitContext::getOperator(OperationName name) {
  auto [it, isNew] = operators.try_emplace(name, plan.operators.size());
  if (isNew) {
    // "aten.add.Tensor" is overload "Tensor" of "aten::add".
    auto [dialect, rest] = name.getStringRef().split('.');
    auto [base, overload] = rest.split('.');
    auto entry = std::make_unique<plan::OperatorT>();
    entry->name = (dialect + "::" + base).str();
    entry->overload = overload.str();
    plan.operators.push_back(std::move(entry));
  }
  return it->second;
}

int32_t EmitContext::getLocation(Location location) {
  auto [it, isNew] = locations.try_emplace(location, -1);
  if (!isNew)
    return it->second;
  std::string text = SourcePlace(location).describe();
  if (!text.empty()) {
    it->second = static_cast<int32_t>(plan.locations.size());
    plan.locations.push_back(std::move(text));
  }
  return it->second;
}

int32_t EmitContext::getInput(StringRef name, plan::DType dtype,
                              RankedTensorType type, RecordAttr sample) {
  for (auto [index, input] : llvm::enumerate(plan.inputs))
    if (input->name == name && input->dtype == dtype &&
        ArrayRef(input->shape) == type.getShape())
      return static_cast<int32_t>(index);
  auto input = std::make_unique<plan::InputT>();
  input->name = name.str();
  input->dtype = dtype;
  input->shape = type.getShape();
  if (sample)
    input->sample = emitRecord(sample);
  plan.inputs.push_back(std::move(input));
  return static_cast<int32_t>(plan.inputs.size() - 1);
}

uint32_t EmitContext::getKernel(plan::KernelProgramT program) {
  flatbuffers::FlatBufferBuilder bytes;
  bytes.Finish(plan::KernelProgram::Pack(bytes, &program));
  StringRef key(reinterpret_cast<const char *>(bytes.GetBufferPointer()),
                bytes.GetSize());
  auto [it, isNew] = kernels.try_emplace(key, plan.kernels.size());
  if (isNew)
    plan.kernels.push_back(
        std::make_unique<plan::KernelProgramT>(std::move(program)));
  return it->second;
}
