//===- Device.h - What a rank computes on -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chosen when a session is made: where its tensors lie, over what they are
// transferred, and who issues its kernels. A step asks it once.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_EXEC_DEVICE_H
#define FSDP_RUNTIME_EXEC_DEVICE_H

#include "plan/plan_generated.h"
#include "runtime/device/AheadWriter.h"
#include "runtime/device/Copies.h"
#include "runtime/device/Memory.h"
#include "runtime/device/Streams.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace at {
class Tensor;
}

namespace fsdp {

class DeviceActivities;
class Executor;
class Fabric;
class GpuKernels;
class Instruction;
class ProfileRecorder;
class Witness;
struct Preparation;

/// One rank's; used by its thread.
class Device {
public:
  virtual ~Device() = default;

  virtual c10::Device torch() const = 0;
  /// Whether the host reaches its memory, and computes what it computes.
  virtual bool isHost() const { return torch().is_cpu(); }
  virtual Memory &memory() = 0;

  /// That of the host beside the device's, `isPinned` if the device is to reach
  /// it on its own. As long as this object.
  virtual Memory &besideMemory(bool isPinned);
  /// Copies between both.
  virtual std::unique_ptr<Copies> makeCopies() = 0;

  /// Connects the ranks for transfers of `memory`; as long as this object.
  virtual Fabric &fabric() = 0;

  /// Collective: all ranks give executors of the same program.
  virtual void rehearse(Executor &executor) = 0;
  /// Collective: the same. What is done on the device may come later. With a
  /// recorder, the host writes down there what runs when, and a device marks
  /// what it does.
  virtual void run(Executor &executor, uint64_t step,
                   ProfileRecorder *recorder = nullptr) = 0;
  /// Collective: rehearsals are over, and what they took is free again.
  virtual void settle() {}
  /// There are no more runs: executors and transfers are about to end.
  virtual void finish() noexcept {}

  /// Brings the next inputs while a step runs; null: writing them when they are
  /// needed is as good.
  virtual std::unique_ptr<AheadWriter> makeAheadWriter();

  /// What lists the device's work, for profiles; null: the host runs all
  /// itself. Throws fsdp::Error (RuntimeUnsupported) where that is missing.
  virtual DeviceActivities *activities() { return nullptr; }

  /// Whether calls look at indices in its memory before kernels use them, for
  /// which they wait for it.
  virtual bool checksIndices() const { return false; }

  /// Bytes that libraries hold to work in, beside all else.
  virtual uint64_t workspaceBytes() const { return 0; }

  /// Told of all that executors' instructions do (Instruction.h); null: nobody.
  virtual Witness *witness() { return nullptr; }

  /// The device's own way to draw random numbers; null: it has none for these.
  virtual std::unique_ptr<Instruction> prepareDraw(Preparation &preparation,
                                                   const plan::DrawT &op) = 0;

  /// Its own update in blocks of what is in its memory, and the greatest values
  /// of blocks that ranks share; null: it has none.
  virtual std::unique_ptr<Instruction> prepareUpdate(Preparation &preparation,
                                                     const plan::UpdateT &op);
  virtual std::unique_ptr<Instruction>
  prepareMaxima(Preparation &preparation, const plan::BlockMaximaT &op);

  /// Its own way to read blocks of codes; null: it has none.
  virtual std::unique_ptr<Instruction>
  prepareDequantize(Preparation &preparation, const plan::DequantizeT &op);

  /// Its own way to add up parts (`sumParts`); null: it has none.
  virtual std::unique_ptr<Instruction>
  prepareSumParts(Preparation &preparation, const plan::SumPartsT &op);

  /// What programs of kernels become there (fsdp_config.kernels), on its
  /// compute stream; null: the host computes them.
  virtual GpuKernels *kernels() { return nullptr; }
  /// Where kernels run; null on the host.
  virtual StreamHandle computeStream() { return nullptr; }

  /// The number in a tensor of one element, as soon as it is there.
  virtual double readNumber(const at::Tensor &tensor) = 0;
  /// Those in several, which are there at the same time.
  virtual std::vector<double> readNumbers(std::span<const at::Tensor> tensors);
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_DEVICE_H
