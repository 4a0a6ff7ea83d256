//===- GpuCode.h - Programs of kernels as text for a GPU --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Made and kept as the processor's code is (Loader.h). PTX of a generation is
// for all later ones, too: the driver makes the GPU's own code of it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_KERNELS_GPUCODE_H
#define FSDP_KERNELS_GPUCODE_H

#include "kernels/GivenCode.h"
#include "kernels/Ptx.h"
#include "plan/plan_generated.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

struct GpuCode {
  std::string ptx;
  std::vector<PtxLaunch> launches;

  /// Null: there is none of that name.
  const PtxLaunch *find(std::string_view entry) const;
};

/// The target of Library.h for a GPU of compute capability `capability`, 90 for
/// 9.0. Throws fsdp::Error (KernelsUnusable) for those before 8.0.
std::string_view targetOfGpu(int capability);

/// A program's code for GPUs of `capability`; equal programs share what is
/// still held. Throws fsdp::Error (KernelsUnusable) as loadKernel (Loader.h)
/// does, and if FSDP_KERNELS in the environment asks for the interpreter. Any
/// thread may call it.
/// Text that is `given` for such a GPU is taken as it is.
std::shared_ptr<const GpuCode> makeGpuCode(const plan::KernelProgramT &program,
                                           int capability,
                                           const GivenCode &given = {});

} // namespace fsdp

#endif // FSDP_KERNELS_GPUCODE_H
