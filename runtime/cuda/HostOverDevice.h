//===- HostOverDevice.h - The host's bytes by a device's way ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CUDA_HOSTOVERDEVICE_H
#define FSDP_RUNTIME_CUDA_HOSTOVERDEVICE_H

#include "runtime/Memory.h"
#include "runtime/comm/Communicator.h"

#include <memory>

namespace fsdp {

/// A fabric whose transfers are of a device's memory, with communicators for
/// the host's: their gathers, which blocks of an export are, go over buffers on
/// the device.
class HostOverDevice final : public Fabric {
public:
  /// Both outlive it. What `memory` does takes its turn among what the fabric
  /// orders its transfers against.
  HostOverDevice(Fabric &device, Memory &memory)
      : device(device), memory(memory) {}

  int rank() const override { return device.rank(); }
  int worldSize() const override { return device.worldSize(); }
  std::unique_ptr<Communicator>
  createCommunicator(const GroupRanks &group) override {
    return device.createCommunicator(group);
  }
  /// Only for all-gathers.
  std::unique_ptr<Communicator>
  createHostCommunicator(const GroupRanks &group) override;
  std::shared_ptr<Streams> streams() const override { return device.streams(); }
  std::vector<std::string> exchange(const std::string &key,
                                    const std::string &value) override {
    return device.exchange(key, value);
  }
  std::shared_ptr<void>
  share(const GroupRanks &group,
        const std::function<std::shared_ptr<void>()> &make) override {
    return device.share(group, make);
  }
  void check() override { device.check(); }
  std::shared_ptr<void> allocateArena(size_t bytes) override {
    return device.allocateArena(bytes);
  }
  void requestStop(uint64_t rounds) override { device.requestStop(rounds); }
  std::optional<uint64_t> stopAfter() const noexcept override {
    return device.stopAfter();
  }
  void abort(const std::string &reason) noexcept override {
    device.abort(reason);
  }

private:
  Fabric &device;
  Memory &memory;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_CUDA_HOSTOVERDEVICE_H
