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

/// The exported call's arguments, as far as they can be read without Python.
struct Pt2Samples {
  /// The leaves, in order; nullopt for those that are no tensors or hold no
  /// data. Empty if that cannot be read.
  std::vector<std::optional<Pt2Sample>> leaves;
  /// Of the same leaves: a number for each tensor, the same for one that was
  /// given several times; 0 for what is none. Empty if that cannot be read.
  std::vector<uint32_t> objects;
};

Pt2Samples readPt2Samples(const ZipDirectory &archive);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_SAMPLES_H
