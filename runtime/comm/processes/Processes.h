//===- Processes.h - What ranks that are processes share --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_PROCESSES_PROCESSES_H
#define FSDP_RUNTIME_COMM_PROCESSES_PROCESSES_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/FabricOptions.h"
#include "runtime/comm/Peers.h"
#include "runtime/comm/processes/Store.h"
#include "runtime/comm/processes/Watch.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// Peers that are processes, which meet in a store. A rank's communicators
/// share the object; the last of them ends it, and then the store, if it is
/// served here, stays until the others left.
class Processes final : public Peers {
public:
  /// Meets all ranks, as the launcher's environment says. Throws fsdp::Error
  /// (RendezvousInvalid, RendezvousFailed, WorldSizeMismatch, RankMissing).
  static std::shared_ptr<Processes> connect(const FabricOptions &options);

  ~Processes() override;
  Processes(const Processes &) = delete;
  Processes &operator=(const Processes &) = delete;

  int rank() const override { return place; }
  int worldSize() const override { return world; }
  std::chrono::milliseconds deadline() const override { return patience; }
  std::vector<std::string> gather(const std::string &key,
                                  const std::string &value,
                                  const std::vector<int> &ranks, ErrorId late,
                                  const std::string &what) override;
  std::vector<std::optional<std::string>>
  survey(const std::string &key, const std::string &value,
         const std::vector<int> &ranks,
         std::chrono::milliseconds time) noexcept override;
  std::string publish(const std::string &reason) override {
    return watch->publish(reason);
  }
  std::optional<std::string> failure() override { return watch->failure(); }
  int add(std::function<void()> interrupt) override {
    return watch->add(std::move(interrupt));
  }
  void remove(int handle) override { watch->remove(handle); }

  void publishStop(uint64_t rounds) override { watch->publishStop(rounds); }
  std::optional<uint64_t> stopAfter() const noexcept override {
    return watch->stopAfter();
  }

  /// For libraries that meet in it themselves.
  Store &meetingPlace() { return *store; }
  /// Whether all ranks are known to be on this machine.
  bool isLoopback() const { return loopback; }

private:
  Processes(const FabricOptions &options, int rank,
            std::unique_ptr<Store> store, bool loopback);

  const int place;
  const int world;
  const std::chrono::milliseconds patience;
  const bool loopback;
  const std::function<bool()> isCancelled;
  const std::unique_ptr<Store> store;
  std::unique_ptr<Watch> watch;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_PROCESSES_PROCESSES_H
