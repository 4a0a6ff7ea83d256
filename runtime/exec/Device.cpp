//===- Device.cpp - What a rank computes on -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Device.h"

#include "runtime/exec/Instruction.h"

#include <ATen/core/Tensor.h>

using namespace fsdp;

Memory &Device::besideMemory(bool) { return hostMemory(); }

std::unique_ptr<AheadWriter> Device::makeAheadWriter() { return nullptr; }

std::unique_ptr<Instruction> Device::prepareUpdate(Preparation &,
                                                   const plan::UpdateT &) {
  return nullptr;
}

std::unique_ptr<Instruction> Device::prepareMaxima(Preparation &,
                                                   const plan::BlockMaximaT &) {
  return nullptr;
}

std::unique_ptr<Instruction>
Device::prepareDequantize(Preparation &, const plan::DequantizeT &) {
  return nullptr;
}

std::unique_ptr<Instruction> Device::prepareSumParts(Preparation &,
                                                     const plan::SumPartsT &) {
  return nullptr;
}

std::vector<double> Device::readNumbers(std::span<const at::Tensor> tensors) {
  std::vector<double> numbers;
  for (const at::Tensor &tensor : tensors)
    numbers.push_back(readNumber(tensor));
  return numbers;
}
