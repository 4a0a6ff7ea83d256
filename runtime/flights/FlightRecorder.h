//===- FlightRecorder.h - Writes what ranks were doing ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_FLIGHTS_FLIGHTRECORDER_H
#define FSDP_RUNTIME_FLIGHTS_FLIGHTRECORDER_H

#include "plan/Reader.h"
#include "runtime/comm/Communicator.h"
#include "runtime/comm/FlightRing.h"
#include "support/Error.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fsdp {

/// Records the transfers of this process's ranks, always, and writes them to
/// FOLDER/RUN/rank_N.json: when an error ends the run, when another rank fails
/// while this one hears nothing of it, and on SIGUSR1 (FlightSignal.h). A file
/// is replaced by a later one of the same rank and run. Of other runs the
/// newest stay (kRunsKept).
class FlightRecorder {
public:
  /// Of runs in a folder, this one too: the files of 8 ranks have some 4 MB.
  static constexpr size_t kRunsKept = 16;

  /// Puts a RecordedFabric in the place of each of `fabrics`, unless it
  /// throws. `folder`, empty: nothing is written. `isInProcess`: these are all
  /// ranks; else collective over all. `plan` and the recorder outlive the
  /// fabrics, but for what `watch` returned. Throws fsdp::Error of the
  /// exchange.
  FlightRecorder(const PlanFile &plan, std::string backend, std::string folder,
                 bool isInProcess,
                 std::vector<std::unique_ptr<Fabric>> &fabrics);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder &) = delete;
  FlightRecorder &operator=(const FlightRecorder &) = delete;

  /// Hears of other processes' failures as long as what it returns lives, which
  /// ends before the fabrics.
  std::vector<std::shared_ptr<void>>
  watch(const std::vector<std::unique_ptr<Fabric>> &fabrics);

  /// An error that ends the run: the first one is written down, unless it says
  /// nothing of the ranks' transfers: before the first step none but a passed
  /// deadline, and no loss that is NaN, which all ranks see alike.
  void write(const Error &error) noexcept;

  /// Where the files of an error are; empty: nowhere.
  std::string writtenTo() const;

private:
  enum class Reason { error, peer, request };

  void run();
  /// Whether any of the ranks took part in a step's transfers.
  bool hasBegun() const;
  void writeAll(Reason reason, const std::string &cause) noexcept;

  const PlanFile &plan;
  const std::string backend, folder;
  std::string runName;
  std::vector<std::unique_ptr<FlightRing>> rings;
  uint64_t world = 1;
  mutable std::mutex mutex;
  // Guarded:
  bool isOver = false; ///< an error ended the run: nothing more is written
  bool isErrorWritten = false;
  std::atomic<bool> peerFailed{false}, stopping{false};
  int event = -1;
  std::thread thread;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_FLIGHTS_FLIGHTRECORDER_H
