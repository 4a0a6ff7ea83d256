//===- FabricOptions.h - What ranks are connected by ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_FABRICOPTIONS_H
#define FSDP_RUNTIME_COMM_FABRICOPTIONS_H

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace fsdp {

class Streams;

struct FabricOptions {
  /// Ranks of the run, as the artifact says.
  int worldSize = 1;
  /// How long a call waits for a peer, also at start-up.
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
  /// Where the ranks meet: "env://", "tcp://host:port" or "file:///path". Used
  /// by back ends whose ranks are processes.
  std::string rendezvous = "env://";
  /// The rank that a `fake` fabric plays.
  int fakeRank = 0;
  /// The device of this process's rank, for back ends that move what lies
  /// there.
  std::shared_ptr<Streams> streams;
  /// Takes what a person may want to know of how transfers are made, one
  /// sentence at a time, from any thread; may be empty.
  std::function<void(const std::string &)> note;
  /// Whether ranks that wait for one another while they start up should give
  /// up, and tell the others so; may be empty.
  std::function<bool()> isCancelled;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_FABRICOPTIONS_H
