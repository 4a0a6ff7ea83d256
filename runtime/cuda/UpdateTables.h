//===- UpdateTables.h - What updates on a device go by ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CUDA_UPDATETABLES_H
#define FSDP_RUNTIME_CUDA_UPDATETABLES_H

#include "runtime/cuda/Update.h"
#include "runtime/device/Memory.h"
#include "runtime/device/Streams.h"
#include "runtime/exec/instructions/BlockUpdates.h"

#include <memory>

namespace fsdp {

class Arena;
class Instruction;

/// An update with the tables that its kernels read, in the device's memory.
class UpdateOnDevice {
public:
  /// What tensors hold is on the device, `memory` is the device's and lives
  /// longer. Throws fsdp::Error (RuntimeUnsupported) for numbers of a step that
  /// are neither f32 nor f64, (OutOfMemory).
  UpdateOnDevice(const PreparedUpdate &prepared, Memory &memory);
  ~UpdateOnDevice();

  const DeviceUpdate &get() const { return update; }

private:
  DeviceUpdate update;
  std::unique_ptr<Arena> tables;
};

/// Null: there is nothing to update.
std::unique_ptr<Instruction> makeUpdateOnDevice(PreparedUpdate prepared,
                                                Memory &memory,
                                                StreamHandle stream);

} // namespace fsdp

#endif // FSDP_RUNTIME_CUDA_UPDATETABLES_H
