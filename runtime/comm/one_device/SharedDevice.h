//===- SharedDevice.h - Ranks of one process on one device ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ranks that are threads keep their threads for all that the host does. What
// is to run on the device they hand to rank 0's thread, which issues it for all
// of them in turn: a wait for an event that nobody has recorded yet would be
// none, a graph cannot depend on another capture's work, and libraries keep
// handles and random sequences by thread.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COMM_ONE_DEVICE_SHAREDDEVICE_H
#define FSDP_RUNTIME_COMM_ONE_DEVICE_SHAREDDEVICE_H

#include "support/Error.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fsdp {

/// One object for all ranks of the process.
class SharedDevice {
public:
  using Clock = std::chrono::steady_clock;

  SharedDevice(int ranks, std::chrono::milliseconds deadline);

  int ranks() const { return static_cast<int>(tasks.size()); }

  /// Every rank comes with its task; `lead` is called with all of them, by
  /// rank, on rank 0's thread, while the others wait for it. What it throws is
  /// thrown on rank 0, and E090 (PeerFailed) on the others. Throws fsdp::Error
  /// if a rank failed or does not come within the deadline.
  void together(int rank, void *task,
                const std::function<void(std::span<void *const> tasks)> &lead);

  /// Makes all that wait here throw, now and later.
  void fail(const std::string &reason) noexcept;

  // For transfers among the ranks:

  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex); }
  void notify() { changed.notify_all(); }
  /// Blocks until `ready()`, with the lock held while it is asked. Throws if a
  /// rank failed, or at the deadline, when `late()` says what was expected.
  template <typename Ready, typename Late>
  void await(std::unique_lock<std::mutex> &lock, const std::string &what,
             Ready ready, Late late) {
    bool came = changed.wait_until(lock, Clock::now() + deadline,
                                   [&] { return failure || ready(); });
    if (ready())
      return;
    if (came)
      throw Error(ErrorId::PeerFailed, what + ": " + *failure);
    failAtDeadline(what, late());
  }

private:
  [[noreturn]] void failAtDeadline(const std::string &what,
                                   const std::string &expected);
  void setFailure(const std::string &reason);

  const std::chrono::milliseconds deadline;
  std::mutex mutex; ///< guards all below
  std::condition_variable changed;
  std::optional<std::string> failure;
  std::vector<void *> tasks;
  std::vector<bool> present;
  int come = 0;
  uint64_t round = 0;
  bool isBroken = false; ///< a round ended with an exception
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_ONE_DEVICE_SHAREDDEVICE_H
