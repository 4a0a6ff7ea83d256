//===- TargetScope.h - The thread's target device ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_META_TARGETSCOPE_H
#define FSDP_IR_CAPTURE_META_TARGETSCOPE_H

#include "ir/capture/request/Target.h"

namespace fsdp::meta {

/// The thread's target: a CPU outside of any scope.
const Target &getTarget();

/// Whether that is a CUDA device. Meta kernels then give the sizes and dtypes
/// of its kernel where they are not the CPU's (torch/_meta_registrations.py and
/// torch/_decomp of the same LibTorch say where); if only strides are others
/// there, a run copies.
inline bool isForCuda() { return getTarget().device == Target::Device::Cuda; }

/// Sets the thread's target for as long as it lives.
class TargetScope {
public:
  explicit TargetScope(const Target &target);
  ~TargetScope();
  TargetScope(const TargetScope &) = delete;
  TargetScope &operator=(const TargetScope &) = delete;

private:
  Target previous;
};

} // namespace fsdp::meta

#endif // FSDP_IR_CAPTURE_META_TARGETSCOPE_H
