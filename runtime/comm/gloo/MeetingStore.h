//===- MeetingStore.h - A store in which a library's ranks meet -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_GLOO_MEETINGSTORE_H
#define FSDP_RUNTIME_COMM_GLOO_MEETINGSTORE_H

#include "runtime/comm/Peers.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <memory>

namespace fsdp {

/// Keys of `base` for a library that connects the ranks itself. Whatever time
/// the library asks for, a wait lasts until the peers' deadline, leaves the
/// connection free for others meanwhile, and throws fsdp::Error (PeerFailed) as
/// soon as a rank fails.
class MeetingStore final : public c10d::PrefixStore {
public:
  MeetingStore(std::shared_ptr<Peers> peers,
               c10::intrusive_ptr<c10d::Store> base);

  std::vector<uint8_t> get(const std::string &key) override;
  void wait(const std::vector<std::string> &keys) override;
  void wait(const std::vector<std::string> &keys,
            const std::chrono::milliseconds &timeout) override;
  /// False: with it, gloo would read several keys without `wait`.
  bool hasExtendedApi() const override { return false; }

private:
  std::shared_ptr<Peers> peers;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_GLOO_MEETINGSTORE_H
