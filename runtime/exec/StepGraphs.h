//===- StepGraphs.h - One launch per step -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// After some runs, a program's work on the device is captured as a graph, that
// of all ranks which share the device as one; from then on a run is one launch.
// What changes from step to step is in the device's memory: inputs, learning
// rates, step counts, the state of random sequences. What cannot be captured
// goes on as single launches, and leaves nothing behind.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_EXEC_STEPGRAPHS_H
#define FSDP_RUNTIME_EXEC_STEPGRAPHS_H

#include "runtime/device/DeviceOptions.h"
#include "runtime/device/GraphRecorder.h"
#include "runtime/device/Streams.h"
#include "runtime/exec/Executor.h"
#include "runtime/exec/IssuingThread.h"
#include "runtime/exec/Transfers.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fsdp {

/// What a rank wants to have done on the device.
struct DeviceTask {
  Streams *streams; ///< its compute stream is where it is done
  Executor *executor;
  uint64_t step;
  ProfileRecorder *recorder = nullptr; ///< of a run that is profiled
};

/// Used by one thread.
class StepGraphs {
public:
  /// What graphs need of others.
  struct Ways {
    /// `agreeOnCapture`, where ranks are processes.
    std::function<std::string(const std::string &program,
                              const std::string &reason)>
        agree;
    /// Waits for all that is on the compute stream.
    std::function<void()> drain;
  };

  StepGraphs(CudaGraph mode, std::unique_ptr<GraphRecorder> recorder,
             Ways ways);
  ~StepGraphs();
  StepGraphs(const StepGraphs &) = delete;
  StepGraphs &operator=(const StepGraphs &) = delete;

  /// Before the first run: what the plan says keeps the program from a graph is
  /// logged now, or an error if there has to be one (RuntimeUnsupported).
  void expect(std::span<DeviceTask *const> tasks);

  /// Issues one run of all ranks' executors, which are of one program and
  /// always come together.
  void run(std::span<DeviceTask *const> tasks);

  /// Forgets all graphs, which must be gone before communicators are.
  void clear() noexcept;

  /// Bytes of the device's memory that were gone once graphs had been made and
  /// launched for the first time: their own, and code that was loaded for them.
  uint64_t takenBytes() const { return taken; }

private:
  struct Entry {
    unsigned runs = 0;
    bool isRefused = false;
    std::string reason; ///< for which it is not to be captured
    std::unique_ptr<WorkGraph> graph;
    // Of a run, by rank:
    std::vector<Transfers::Counts> transfers;
    std::vector<Transfers::Captured> captured;
  };

  /// On the thread that issues.
  void issueRun(std::span<DeviceTask *const> tasks);
  void issue(std::span<DeviceTask *const> tasks);
  /// The kernels, on their streams or into a capture.
  void put(std::span<DeviceTask *const> tasks) const;
  /// Throws where a capture fails; then no work was done.
  std::unique_ptr<WorkGraph> capture(Entry &entry,
                                     std::span<DeviceTask *const> tasks);
  /// After a capture failed for `reason`: goes on by a thread for which
  /// libraries work.
  void recover(std::span<DeviceTask *const> tasks, const std::string &reason);
  void refuse(Entry &entry, std::span<DeviceTask *const> tasks,
              const std::string &reason);
  void replay(Entry &entry, std::span<DeviceTask *const> tasks);
  /// The first launch, and what it and the capture took.
  void begin(Entry &entry, std::span<DeviceTask *const> tasks,
             size_t freeBefore);

  /// Where NCCL is told that single launches and graphs are never in flight at
  /// a time.
  void separate(bool isGraph);

  const CudaGraph mode;
  const std::unique_ptr<GraphRecorder> recorder;
  const Ways ways;
  const bool isSeparate; ///< NCCL_GRAPH_MIXING_SUPPORT=0
  std::optional<bool> wasGraph;
  std::map<const Executor *, Entry> entries; ///< by rank 0's
  uint64_t taken = 0;
  // That all streams follow rank 0's, and it them; made when needed.
  void fork(std::span<DeviceTask *const> tasks);
  void join(std::span<DeviceTask *const> tasks);
  std::vector<EventHandle> events;
  Streams *owner = nullptr; ///< of the events
  /// The last of them issues, in the place of threads for which libraries fail
  /// since a capture. Those stay: their handles are given to whoever comes
  /// next.
  std::vector<std::unique_ptr<IssuingThread>> successors;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_STEPGRAPHS_H
