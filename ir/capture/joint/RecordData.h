//===- RecordData.h - Tensors of a model's file -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_JOINT_RECORDDATA_H
#define FSDP_IR_CAPTURE_JOINT_RECORDDATA_H

#include "ir/capture/joint/JointGraph.h"

namespace fsdp::capture {

/// The tensor of `type` whose bytes are the record of the file `path`, on the
/// CPU, in the record's strides; undefined if they cannot be read.
at::Tensor readRecord(const std::string &path, const Record &record,
                      const TensorType &type);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_RECORDDATA_H
