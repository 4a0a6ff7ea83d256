//===- FakeDriver.h - Stands for CUDA's driver ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Takes the PTX of programs that it was taught, and puts launches of it on the
// streams of simulated devices, where the host computes them. It refuses what
// the driver refuses, and what a GPU would fail of: other PTX, entries that are
// not there, loading while a stream is captured, calls of threads that have no
// device, grids and blocks beyond the limits, addresses that are not aligned or
// no memory of the device's.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_FAKEDRIVER_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_FAKEDRIVER_H

#include "kernels/Ptx.h"
#include "plan/plan_generated.h"
#include "runtime/kernels/Driver.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fsdp::test {

/// An entry that runs.
struct FakeLaunch {
  const plan::KernelProgramT &program;
  const std::string &ptx;
  const PtxLaunch &launch;
  std::vector<void *> arguments;
};

/// There is one in a process, as there is one driver.
class FakeDriver {
public:
  static const driver::Functions &functions();

  /// That the PTX that a GPU of `capability` is given for the program computes
  /// it.
  static void teach(const plan::KernelProgramT &program, int capability);
  /// What computes launches from now on; null: the processor's code, which
  /// gives sums over rows the host's order.
  static void computeBy(std::function<void(const FakeLaunch &)> executor);
  /// What the next call of launchKernel gives, in place of a launch.
  static void failNextLaunch(driver::Result result);

  /// While one is there, the thread's launches happen at once.
  class Rehearsal {
  public:
    Rehearsal();
    ~Rehearsal();
    Rehearsal(const Rehearsal &) = delete;
    Rehearsal &operator=(const Rehearsal &) = delete;
  };

  /// While one is there, the thread's launches are noted, and put on their
  /// streams by `put`: a device that does some of its work whenever something
  /// is put there does none within a call whose memory is served.
  class Launches {
  public:
    Launches();
    ~Launches();
    Launches(const Launches &) = delete;
    Launches &operator=(const Launches &) = delete;
    void put();

  private:
    std::vector<std::function<void()>> noted;
  };

  static uint64_t loadCount();
  /// Of all entries; those of rehearsals, too.
  static uint64_t launchCount();
};

/// As the processor's code computes it.
void computeOnHost(const FakeLaunch &launch);

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_FAKEDRIVER_H
