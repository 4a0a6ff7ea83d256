//===- Transfer.h - One transfer as messages --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which bytes of a transfer go to which peer. Large members travel straight
// from and to their place; small ones are packed, so that a bucket of many
// small members is one message to each peer.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_GLOO_TRANSFER_H
#define FSDP_RUNTIME_COMM_GLOO_TRANSFER_H

#include "runtime/comm/Communicator.h"

#include <cstddef>
#include <functional>
#include <vector>

namespace fsdp {

/// The same number of bytes to each peer and from each peer, or to one and from
/// one alone.
struct GlooMessage {
  size_t bytes;
  /// To peer p go the bytes at send + p * sendStride.
  const std::byte *send;
  size_t sendStride;
  /// Those of peer p come to receive + p * receiveStride; where this rank's
  /// own part has no room, peers above it move down by one.
  std::byte *receive;
  size_t receiveStride;
  bool hasOwnRoom;
  int to = kAll, source = kAll; ///< which peer alone

  static constexpr int kAll = -1;

  std::byte *from(int peer, int rank) const {
    return receive +
           (hasOwnRoom || peer < rank ? peer : peer - 1) * receiveStride;
  }
};

class GlooTransfer {
public:
  /// Gives `bytes` of staging memory that live as long as the transfer.
  using Allocate = std::function<std::byte *(size_t bytes)>;

  static GlooTransfer make(const Transfer &transfer, int rank, int size,
                           const Allocate &allocate);

  std::vector<GlooMessage> messages;
  /// Unpacks or combines; called once all messages have come and gone.
  std::function<void()> finish;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_GLOO_TRANSFER_H
