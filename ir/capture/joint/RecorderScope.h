//===- RecorderScope.h - Activates a recorder on a thread -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_JOINT_RECORDERSCOPE_H
#define FSDP_IR_CAPTURE_JOINT_RECORDERSCOPE_H

#include "ir/capture/joint/Recorder.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace fsdp::capture {

class Recorder::Scope {
public:
  explicit Scope(Recorder &recorder);
  ~Scope();
  Scope(const Scope &) = delete;
  Scope &operator=(const Scope &) = delete;

private:
  // Factories have no tensor that would bring Functionalize along.
  c10::impl::IncludeDispatchKeyGuard keys{c10::DispatchKeySet(
      {c10::DispatchKey::Fake, c10::DispatchKey::Functionalize})};
  // Views stay views, not copies.
  at::functionalization::impl::FunctionalizationReapplyViewsGuard views{true};
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_RECORDERSCOPE_H
