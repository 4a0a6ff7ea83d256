//===- Reader.h - Reads the masks of a graph that is recorded ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_MASKS_READER_H
#define FSDP_IR_CAPTURE_MASKS_READER_H

#include "ir/capture/joint/JointCapture.h"
#include "ir/capture/masks/ConstantValues.h"
#include "ir/capture/meta/AttentionMask.h"

#include <map>
#include <tuple>

namespace fsdp::masks {

/// Reads the masks that attention gets while `capture` runs a model, and notes
/// in its graph what they are.
class Reader final : public meta::MaskReader {
public:
  explicit Reader(capture::JointCapture &capture)
      : capture(capture), values(capture.getGraph()) {}

  meta::MaskForm read(const at::Tensor &mask, int64_t queries,
                      int64_t keys) override;

private:
  capture::JointCapture &capture;
  ConstantValues values;
  /// One mask for all layers is read once.
  std::map<std::tuple<capture::ValueId, int64_t, int64_t>, meta::MaskForm>
      forms;
};

} // namespace fsdp::masks

#endif // FSDP_IR_CAPTURE_MASKS_READER_H
