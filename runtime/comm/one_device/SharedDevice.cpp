//===- SharedDevice.cpp - Ranks of one process on one device --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/one_device/SharedDevice.h"

#include "runtime/comm/Label.h"

#include <algorithm>

using namespace fsdp;

SharedDevice::SharedDevice(int ranks, std::chrono::milliseconds deadline)
    : deadline(deadline), tasks(static_cast<size_t>(ranks)),
      present(static_cast<size_t>(ranks)) {}

void SharedDevice::together(
    int rank, void *task,
    const std::function<void(std::span<void *const> tasks)> &lead) {
  if (ranks() == 1)
    return lead({&task, 1});
  std::string what = "rank " + std::to_string(rank) + ": step on a device";
  std::unique_lock lock(mutex);
  const uint64_t mine = round;
  tasks[rank] = task;
  present[rank] = true;
  ++come;
  changed.notify_all();
  await(
      lock, what, [&] { return come == ranks() || round != mine; },
      [&] {
        std::vector<int> missing;
        for (int each = 0; each < ranks(); ++each)
          if (!present[each])
            missing.push_back(each);
        return "expected " + describeRanks(missing) + " to come";
      });
  if (rank != 0) {
    // Rank 0 uses what this rank gave until it says that it is done.
    changed.wait(lock, [&] { return round != mine; });
    if (isBroken)
      throw Error(ErrorId::PeerFailed, what + ": " + *failure);
    return;
  }
  auto end = [&] {
    come = 0;
    present.assign(present.size(), false);
    ++round;
    changed.notify_all();
  };
  // Who came may have left since. Those who did not wait for the end.
  if (failure) {
    isBroken = true;
    end();
    throw Error(ErrorId::PeerFailed, what + ": " + *failure);
  }
  lock.unlock();
  try {
    lead(tasks);
  } catch (const std::exception &error) {
    lock.lock();
    isBroken = true;
    setFailure("rank 0 failed, which issues the work of all ranks: " +
               std::string(error.what()));
    end();
    throw;
  }
  lock.lock();
  end();
}

void SharedDevice::setFailure(const std::string &reason) {
  // The first one is the root cause.
  if (!failure)
    failure = reason;
  changed.notify_all();
}

void SharedDevice::fail(const std::string &reason) noexcept {
  std::lock_guard lock(mutex);
  setFailure(reason);
}

void SharedDevice::failAtDeadline(const std::string &what,
                                  const std::string &expected) {
  std::string message = what + ": " + expected + " within " +
                        describe(deadline) + ", but did not";
  setFailure(message);
  throw Error(ErrorId::DeadlinePassed, message);
}
