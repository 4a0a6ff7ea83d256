//===- Reader.h - Reads the masks of a graph that is recorded ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_MASKS_READER_H
#define FSDP_IR_CAPTURE_MASKS_READER_H

#include "ir/capture/joint/Recorder.h"
#include "ir/capture/masks/ConstantValues.h"
#include "ir/capture/meta/AttentionMask.h"

#include <map>
#include <tuple>

namespace fsdp::masks {

/// Reads the masks that attention gets while `recorder` records into `graph`,
/// and notes in it what they are.
class Reader final : public meta::MaskReader {
public:
  Reader(capture::Recorder &recorder, capture::JointGraph &graph)
      : recorder(recorder), graph(graph), values(graph) {}

  meta::MaskForm read(const at::Tensor &mask, int64_t queries,
                      int64_t keys) override;

private:
  capture::Recorder &recorder;
  capture::JointGraph &graph;
  ConstantValues values;
  /// One mask for all layers is read once.
  std::map<std::tuple<capture::ValueId, int64_t, int64_t>, meta::MaskForm>
      forms;
};

} // namespace fsdp::masks

#endif // FSDP_IR_CAPTURE_MASKS_READER_H
