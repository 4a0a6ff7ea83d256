//===- GpuKernels.h - Programs of kernels, ready on a GPU -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads what kernels/Ptx.h describes, and launches it. The driver is behind a
// table of functions, so that another one can stand for it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_KERNELS_GPUKERNELS_H
#define FSDP_RUNTIME_KERNELS_GPUKERNELS_H

#include "kernels/GpuCode.h"
#include "plan/plan_generated.h"
#include "runtime/device/Streams.h"
#include "runtime/kernels/Driver.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fsdp {

/// An entry of a kernel's code, loaded.
struct GpuEntry {
  const PtxLaunch *launch = nullptr;
  driver::Function function = nullptr;
};

/// A program's code on one device, which stays there for good: work that never
/// ends may be in it when its run is given up. Never changes.
class GpuModule {
public:
  /// Makes and loads it. The device is the calling thread's, nothing is
  /// captured. Throws fsdp::Error (KernelsUnusable).
  GpuModule(const driver::Functions &driver, int capability,
            const plan::KernelProgramT &program, const GivenCode &given);

  const driver::Functions &driver;
  const std::string name; ///< the program's, for people

  /// Throws fsdp::Error (KernelsUnusable) if there is none.
  GpuEntry find(const std::string &entry) const;

private:
  std::shared_ptr<const GpuCode> code;
  driver::Module handle = nullptr;
  std::vector<GpuEntry> entries;
};

/// A kernel over the addresses that it works on.
class GpuKernelCall {
public:
  /// One address for each operand of the program, in its order.
  GpuKernelCall(std::shared_ptr<const GpuModule> module,
                const plan::KernelProgramT &program,
                std::vector<void *> operands);

  /// Bytes that a run works in beside the operands; 0: none.
  uint64_t scratchBytes() const { return scratch; }
  /// Whether there is nothing to compute.
  bool isEmpty() const { return launches.empty(); }
  /// Puts it on `stream`. `at`: `scratchBytes` bytes of the device's that begin
  /// at a multiple of 16. Throws fsdp::Error (DeviceFailed), which names the
  /// kernel.
  void run(char *at, StreamHandle stream) const;

private:
  struct Argument {
    void *address;   ///< or
    uint64_t offset; ///< in the scratch
    bool isScratch;
  };
  struct Launch {
    GpuEntry entry;
    std::vector<Argument> arguments;
  };

  std::shared_ptr<const GpuModule> module;
  std::vector<Launch> launches; ///< in their order
  uint64_t scratch = 0;
};

/// Kernels of one device. Any thread may call it.
class GpuKernels {
public:
  /// `driver` and what it is about live as long as the process; `device` is its
  /// number there, `capability` 90 for 9.0.
  GpuKernels(const driver::Functions &driver, int device, int capability)
      : driver(driver), device(device), capability(capability) {}

  /// A program's code on the device, which is the calling thread's. Equal
  /// programs of a process share it. Throws as GpuModule does.
  std::shared_ptr<const GpuModule> load(const plan::KernelProgramT &program,
                                        const GivenCode &given = {});

private:
  const driver::Functions &driver;
  const int device, capability;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_KERNELS_GPUKERNELS_H
