//===- Recorder.h - When each instruction ran -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is written down during a step: numbers and times, nothing else, into
// memory that was there before. Names, buckets and sums are worked out from the
// plan afterwards. Times are nanoseconds of the host's steady clock. What ran
// on a device the device lists (DeviceActivities.h); of those runs the host's
// own times of starts and of what it computed are here.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_PROFILE_RECORDER_H
#define FSDP_RUNTIME_PROFILE_RECORDER_H

#include "plan/plan_generated.h"
#include "runtime/profile/DeviceActivities.h"

#include <chrono>
#include <cstdint>
#include <vector>

namespace fsdp {

/// One run of one instruction.
struct ProfileRecord {
  int64_t begin, end;
  uint32_t instruction; ///< of the run's program
  uint32_t run;         ///< of the rank
  int64_t idle = 0;     ///< of its time, between pieces of work of a device

  int64_t busy() const { return end - begin - idle; }
};

/// One run of a program: a micro-batch of a step.
struct ProfileRun {
  uint64_t step;
  uint32_t microBatch; ///< of the step
  uint32_t program;    ///< into the plan's programs
  int64_t begin;       ///< before the inputs are brought in
  int64_t loaded;      ///< inputs are there
  int64_t end;         ///< after the last instruction
};

/// From the end of the step before to the end of this one, as the metrics'
/// step_time_s.
struct ProfileStep {
  uint64_t step;
  int64_t begin, end;
};

/// Used by one rank's thread. Nothing is allocated after construction.
class ProfileRecorder {
public:
  /// `records`, `runs` and `steps` are the most that will come; what is more is
  /// counted and dropped. `plan` outlives the recorder.
  ProfileRecorder(const plan::PlanT &plan, size_t records, size_t runs,
                  size_t steps);

  /// The runs that follow are on a device, which lists what it does. Outlives
  /// the recorder.
  void watch(DeviceActivities &activities, int rank) {
    device = &activities;
    deviceRank = static_cast<uint32_t>(rank);
  }
  /// Null: the host runs all.
  DeviceActivities *watched() const { return device; }

  /// On a device: what the calling thread asks of it in the scope is for this
  /// instruction of the open run.
  class Marked {
  public:
    Marked(const ProfileRecorder &recorder, uint32_t instruction)
        : device(recorder.isOpen ? recorder.device : nullptr) {
      if (device)
        device->enter(
            DeviceMark{recorder.deviceRank, recorder.run, instruction}.pack());
    }
    ~Marked() {
      if (device)
        device->leave();
    }
    Marked(const Marked &) = delete;
    Marked &operator=(const Marked &) = delete;

  private:
    DeviceActivities *const device;
  };

  static int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  /// In this order: beginRun, endLoading, add for each instruction, endRun; and
  /// addStep when a step's last run is over. `program` is one of the plan's.
  void beginRun(uint64_t step, uint64_t microBatch,
                const plan::ProgramT &program);
  void endLoading();
  void add(uint32_t instruction, int64_t begin, int64_t end) {
    if (used == all.size()) {
      ++lost;
      return;
    }
    all[used++] = {begin, end, instruction, run};
  }
  void endRun();
  void addStep(uint64_t step, int64_t begin, int64_t end);

  const std::vector<ProfileRun> &runs() const { return allRuns; }
  const std::vector<ProfileStep> &steps() const { return allSteps; }
  /// What was added so far, in order.
  const ProfileRecord *records() const { return all.data(); }
  size_t recordCount() const { return used; }
  /// For want of room.
  uint64_t dropped() const { return lost; }

private:
  const plan::PlanT &plan;
  std::vector<ProfileRecord> all; ///< of full size from the beginning
  size_t used = 0;
  uint32_t run = 0;
  uint64_t lost = 0;
  bool isOpen = false;
  DeviceActivities *device = nullptr;
  uint32_t deviceRank = 0;
  std::vector<ProfileRun> allRuns;
  std::vector<ProfileStep> allSteps;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_PROFILE_RECORDER_H
