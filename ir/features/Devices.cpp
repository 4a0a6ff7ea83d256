//===- Devices.cpp - What kinds of devices can do -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/features/Devices.h"

#include <algorithm>

using namespace fsdp;

std::span<const Device> fsdp::getDevices() {
  static constexpr Device all[] = {
      {.name = "cpu",
       .kernels = KernelTable::Host,
       .ordersSums = true,
       .sumsWider = true,
       .alignment = 1},
      // NCCL sums while it moves; it and kernels move 16 bytes at a time.
      {.name = "cuda",
       .kernels = KernelTable::Cuda,
       .widensProducts = true,
       .readsFloat8InOrder = true},
  };
  return all;
}

const Device &fsdp::findDevice(std::string_view target) {
  static constexpr Device unknown{.name = "of another kind"};
  auto found = std::ranges::find(
      getDevices(), target.substr(0, target.find(':')), &Device::name);
  return found == getDevices().end() ? unknown : *found;
}
