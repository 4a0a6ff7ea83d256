//===- Samples.h - The sample inputs of an archive --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_PT2_SAMPLES_H
#define FSDP_IR_CAPTURE_PT2_SAMPLES_H

#include "ir/capture/joint/JointGraph.h"
#include "support/ZipDirectory.h"

namespace fsdp::capture {

/// A tensor that the model was exported with.
struct Pt2Sample {
  TensorType type;
  Record record;
};

/// The leaves of the exported call's arguments, in order; nullopt for those
/// that are no tensors or hold no data. Empty if the archive has no samples
/// that can be read without Python.
std::vector<std::optional<Pt2Sample>>
readPt2Samples(const ZipDirectory &archive);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_SAMPLES_H
