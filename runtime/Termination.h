//===- Termination.h - SIGTERM ends a run between two steps -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_TERMINATION_H
#define FSDP_RUNTIME_TERMINATION_H

#include <cstdint>

namespace fsdp {

class Fabric;

/// While any lives, the process's first SIGTERM is noted rather than obeyed; a
/// second one ends the process. One a rank of a training run. Afterwards the
/// signal does again what it did before.
class Termination {
public:
  explicit Termination(Fabric &fabric);
  ~Termination();
  Termination(const Termination &) = delete;
  Termination &operator=(const Termination &) = delete;

  /// Whether the run is to end here, between two steps, `steps` of which are
  /// done: the same on all ranks, whichever of them got the signal. Free where
  /// there was none. Throws fsdp::Error if a peer failed.
  bool isDue(uint64_t steps);

private:
  Fabric &fabric;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TERMINATION_H
