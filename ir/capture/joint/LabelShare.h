//===- LabelShare.h - Which labels a cross-entropy counts -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_JOINT_LABELSHARE_H
#define FSDP_IR_CAPTURE_JOINT_LABELSHARE_H

#include "ir/capture/joint/Recorder.h"

namespace fsdp::capture {

/// Under the recorder, before differentiation: of the labels of the one
/// cross-entropy that `loss` is computed from, the share that is not its
/// ignore_index, an f32 without dims. Throws Error (ConfigNotSupported) if
/// there is not one, or if it is no mean over labels of equal weights.
at::Tensor computeLabelShare(const JointGraph &graph, Recorder &recorder,
                             const at::Tensor &loss);

/// `loss` times `share`, in f32; 0 where no label counts.
at::Tensor weighLoss(const at::Tensor &loss, const at::Tensor &share);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_LABELSHARE_H
