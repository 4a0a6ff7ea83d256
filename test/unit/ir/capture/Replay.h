//===- Replay.h - Computes a joint graph on real tensors --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_IR_CAPTURE_REPLAY_H
#define FSDP_TEST_UNIT_IR_CAPTURE_REPLAY_H

#include "ir/capture/joint/JointGraph.h"

namespace fsdp::capture {

/// The tensor that lies at `record` of the file, which has type `type`.
at::Tensor loadRecord(const std::string &path, const Record &record,
                      const TensorType &type);

/// Runs the graph's operators on `states` and `inputs`, in their order. Returns
/// one tensor for each of the graph's results.
std::vector<at::Tensor> replay(const JointGraph &graph,
                               const std::vector<at::Tensor> &states,
                               const std::vector<at::Tensor> &inputs);

} // namespace fsdp::capture

#endif // FSDP_TEST_UNIT_IR_CAPTURE_REPLAY_H
