//===- FlightSignal.h - SIGUSR1 asks for the flight record ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_FLIGHTS_FLIGHTSIGNAL_H
#define FSDP_RUNTIME_FLIGHTS_FLIGHTSIGNAL_H

#include <csignal>

namespace fsdp {

/// While it lives, SIGUSR1 asks the process's flight recorder for its files,
/// unless somebody else already handles or ignores the signal. Threads that are
/// made meanwhile do not take it, so that no call of a library is interrupted:
/// the recorder's own thread does. One a process.
class FlightSignal {
public:
  FlightSignal();
  /// The signal does again what it did before.
  ~FlightSignal();
  FlightSignal(const FlightSignal &) = delete;
  FlightSignal &operator=(const FlightSignal &) = delete;

  /// From now on, and once if the signal already came, eight bytes are written
  /// to the event descriptor when it comes; -1: nothing is. Called by the
  /// thread that is to take it.
  static void listen(int event);
  /// Whether it came since it was last asked.
  static bool hasCome();

private:
  bool isInstalled = false;
  struct sigaction before{};
  sigset_t maskBefore{};
};

} // namespace fsdp

#endif // FSDP_RUNTIME_FLIGHTS_FLIGHTSIGNAL_H
