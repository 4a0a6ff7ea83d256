//===- Reader.h - Reads what attention gets in a recorded graph -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_ATTENTION_READER_H
#define FSDP_IR_CAPTURE_ATTENTION_READER_H

#include "ir/capture/attention/ConstantValues.h"
#include "ir/capture/joint/JointCapture.h"
#include "ir/capture/meta/AttentionReader.h"

#include <map>
#include <tuple>

namespace fsdp::attention {

/// Reads what attention gets while `capture` runs a model, and notes in its
/// graph what the masks are.
class Reader final : public meta::AttentionReader {
public:
  explicit Reader(capture::JointCapture &capture)
      : capture(capture), values(capture.getGraph()),
        producers(capture.getGraph()) {}

  meta::MaskForm read(const at::Tensor &mask, int64_t queries,
                      int64_t keys) override;
  at::Tensor findSharedHeads(const at::Tensor &repeated) override;

private:
  capture::JointCapture &capture;
  ConstantValues values;
  Producers producers;
  /// One mask for all layers is read once.
  std::map<std::tuple<capture::ValueId, int64_t, int64_t>, meta::MaskForm>
      forms;
};

} // namespace fsdp::attention

#endif // FSDP_IR_CAPTURE_ATTENTION_READER_H
