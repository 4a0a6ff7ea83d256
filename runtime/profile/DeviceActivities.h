//===- DeviceActivities.h - What a device did, and when ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The host only puts work on a device; when that ran, a listing of the device
// says. Each piece of work bears the mark of the instruction that asked for it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_PROFILE_DEVICEACTIVITIES_H
#define FSDP_RUNTIME_PROFILE_DEVICEACTIVITIES_H

#include <cstdint>
#include <vector>

namespace fsdp {

/// Who asked: an instruction of a run of a rank, or what brings in the run's
/// inputs. As one number, since devices keep no more.
struct DeviceMark {
  /// In place of an instruction.
  static constexpr uint32_t kInputs = (1u << 24) - 1;
  /// More of these have no number.
  static constexpr uint32_t kMostRanks = 1u << 16, kMostRuns = 1u << 24,
                            kMostInstructions = kInputs;

  uint32_t rank, run, instruction;

  uint64_t pack() const {
    return uint64_t(rank) << 48 | uint64_t(run) << 24 | instruction;
  }
};

/// A kernel, a copy or a fill. Times are nanoseconds of ProfileRecorder's
/// clock.
struct DeviceActivity {
  int64_t begin, end;
  /// When the host asked for it.
  int64_t asked;
  /// Whether somebody had said for whom: else `mark` means nothing.
  bool isMarked;
  uint64_t mark; ///< DeviceMark::pack
};

struct DeviceListing {
  std::vector<DeviceActivity> activities; ///< in no order
  /// That the device could not list, or has no times of.
  uint64_t lost = 0;
};

/// One object for all ranks of the process. Any thread may call any function.
/// All throw fsdp::Error (RuntimeUnsupported, DeviceFailed).
class DeviceActivities {
public:
  virtual ~DeviceActivities() = default;

  /// From now on the device's work is listed, until as many calls of `end`.
  virtual void begin() = 0;
  /// The last one forgets what was listed.
  virtual void end() = 0;

  /// What the calling thread asks of the device from now on bears this mark.
  virtual void enter(uint64_t mark) = 0;
  /// As before the last `enter` of the thread.
  virtual void leave() noexcept = 0;

  /// Waits for what is on the device; all that it did since `begin`. Nothing
  /// more is listed until the next `begin`.
  virtual DeviceListing list() = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_PROFILE_DEVICEACTIVITIES_H
