//===- Reader.h - Reads what attention gets in a recorded graph -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_ATTENTION_READER_H
#define FSDP_IR_CAPTURE_ATTENTION_READER_H

#include "ir/capture/attention/ConstantValues.h"
#include "ir/capture/joint/JointCapture.h"
#include "ir/capture/meta/AttentionReader.h"

#include <map>
#include <tuple>
#include <vector>

namespace fsdp::attention {

/// Reads what attention gets while `capture` runs a model, and notes in its
/// graph what the masks are.
class Reader final : public meta::AttentionReader {
public:
  /// With `readsStates`, masks may be states of the file.
  Reader(capture::JointCapture &capture, const CaptureRequest &request,
         bool readsStates)
      : capture(capture), request(request),
        values(capture.getGraph(), kMostElements, readsStates),
        producers(capture.getGraph()) {}

  /// Whether the step of `complete` writes a state that was read as a mask:
  /// then the model is to be captured without reading any.
  bool hasReadChanged(const capture::JointGraph &complete) const {
    return values.hasReadChanged(complete);
  }

  meta::MaskReading read(const at::Tensor &mask, int64_t queries,
                         int64_t keys) override;
  std::optional<meta::DocumentReading>
  readDocuments(const at::Tensor &mask, const meta::MaskReading &reading,
                int64_t batch, int64_t length) override;
  std::optional<meta::PaddingReading> readPadding(const at::Tensor &mask,
                                                  int64_t batch,
                                                  int64_t queries,
                                                  int64_t keys) override;
  void note(const meta::AttentionCall &call) override;
  at::Tensor getAdded(const at::Tensor &mask, at::ScalarType dtype,
                      double masked) override;
  at::Tensor getRanges(const at::Tensor &begin, const at::Tensor &end,
                       int64_t keys) override;
  at::Tensor findSharedHeads(const at::Tensor &heads, int64_t queries) override;
  at::Tensor findRows(const at::Tensor &tensor,
                      const at::Tensor &rows) override;
  bool sharesSequences() const override { return request.cutsSequences; }

private:
  /// As `readDocuments`.
  std::optional<meta::DocumentReading>
  makeDocuments(capture::ValueId mask, const meta::MaskReading &reading,
                int64_t batch, int64_t length);

  /// As `readPadding`.
  std::optional<meta::PaddingReading> makePadding(capture::ValueId mask,
                                                  int64_t batch,
                                                  int64_t queries,
                                                  int64_t keys);

  static constexpr int64_t kMostElements = int64_t(1) << 22;

  capture::JointCapture &capture;
  const CaptureRequest &request;
  ConstantValues values;
  Producers producers;
  // One mask for all layers is read, and made, once.
  std::map<std::tuple<capture::ValueId, int64_t, int64_t>, meta::MaskReading>
      readings;
  std::map<std::tuple<capture::ValueId, int64_t, int64_t>,
           std::optional<meta::DocumentReading>>
      documents;
  std::map<std::tuple<capture::ValueId, int64_t, int64_t, int64_t>,
           std::optional<meta::PaddingReading>>
      paddings;
  std::map<std::vector<capture::ValueId>, at::Tensor> seen; ///< of `Padding`
  std::map<std::tuple<capture::ValueId, at::ScalarType, double>, at::Tensor>
      added;
  std::map<std::vector<int64_t>, at::Tensor> ranges; ///< begins, ends, keys
  std::map<std::tuple<capture::ValueId, int64_t>, at::Tensor>
      bounds; ///< ids, rows
};

} // namespace fsdp::attention

#endif // FSDP_IR_CAPTURE_ATTENTION_READER_H
