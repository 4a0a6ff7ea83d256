//===- Termination.h - Signals end a run in good order ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_LAUNCH_TERMINATION_H
#define FSDP_RUNTIME_LAUNCH_TERMINATION_H

#include <cstdint>
#include <memory>
#include <span>

namespace fsdp {

class Fabric;

/// While it lives, the process's first SIGTERM or SIGINT is noted rather than
/// obeyed; a second one ends the process, but for one that comes at once behind
/// the first: a launcher hands on what the terminal has sent to all. While
/// ranks still start up, the first one ends the process, too, as soon as the
/// other ranks know. Afterwards signals do again what they did before. One a
/// process.
class TerminationSignals {
public:
  TerminationSignals();
  ~TerminationSignals();
  TerminationSignals(const TerminationSignals &) = delete;
  TerminationSignals &operator=(const TerminationSignals &) = delete;

  /// Whether ranks that are to meet should give up.
  static bool endsStart();
  /// The process's ranks, as long as `connected` lives: they are told.
  std::shared_ptr<void> watch(std::span<const std::unique_ptr<Fabric>> ranks);
  /// Of a run that is no training: signals do what they did before.
  static void release();
  /// Ends the process as the signal does, if one came while ranks started up.
  static void obey();
};

/// One a rank of a training run, from its first step on.
class Termination {
public:
  explicit Termination(Fabric &fabric);

  /// Whether the run is to end here, between two steps, `steps` of which are
  /// done: the same on all ranks, whichever of them got the signal. Free where
  /// there was none. Throws fsdp::Error if a peer failed.
  bool isDue(uint64_t steps);
  /// "SIGINT", or "SIGTERM", also where another process got the signal.
  static const char *signalName();

private:
  Fabric &fabric;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_LAUNCH_TERMINATION_H
