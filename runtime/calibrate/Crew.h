//===- Crew.h - Ranks that measure together ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CALIBRATE_CREW_H
#define FSDP_RUNTIME_CALIBRATE_CREW_H

#include "runtime/comm/Communicator.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fsdp {

/// One number, and what it was measured of: `at` is where in a table.
struct Measured {
  std::string table; ///< "products f32", "silu", "all_gather start"
  std::vector<double> at;
  double value = 0; ///< seconds, unless the table says otherwise
};

/// The first ranks of a run, seen from one of them. What one measures all do at
/// the same time, so that they share the machine as in a step.
class Crew {
public:
  /// Collective over the first `size` ranks.
  Crew(Fabric &fabric, int size);

  int size() const { return communicator->size(); }
  Communicator &transfers() { return *communicator; }
  bool isFirst() const { return communicator->rank() == 0; }

  /// Until all are here.
  void meet() { average(0); }
  /// Of a number of each, the same on all.
  float average(float own);
  /// Seconds of a call, once it is warm: of some batches that of the first
  /// quarter, since whatever else the machine does only makes calls slower.
  double time(const std::function<void()> &call);

  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

private:
  std::unique_ptr<Communicator> communicator;
};

double median(std::vector<double> values);
/// The value below which a quarter of them lie.
double firstQuarter(std::vector<double> values);

/// How all of it goes: "calibrate: 2 ranks: products", on stderr.
void sayProgress(const Crew &crew, const std::string &what);

} // namespace fsdp

#endif // FSDP_RUNTIME_CALIBRATE_CREW_H
