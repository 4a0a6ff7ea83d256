//===- CaptureRequest.h - What to capture of a model ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_REQUEST_CAPTUREREQUEST_H
#define FSDP_IR_CAPTURE_REQUEST_CAPTUREREQUEST_H

#include "ir/capture/request/Adapter.h"
#include "ir/capture/request/Precision.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

enum class CaptureMode {
  Auto,      ///< Train, but Inference if nothing in the model is trainable
  Train,     ///< forward and backward
  Inference, ///< forward only; parameters count as frozen
};

struct CaptureRequest {
  CaptureMode mode = CaptureMode::Auto;
  /// Outputs to keep beside the loss, by name; none for inference: all.
  std::vector<std::string> outputs;
  /// Groups of names of parameters or buffers that are one tensor, for archives
  /// without data, which do not show it.
  std::vector<std::vector<std::string>> ties;
  Precision precision;
  /// Name of the output that is the loss; empty: the first.
  std::string loss;
  /// Whether gradients that the export lost are taken as they are.
  bool acceptLostGradients = false;
  /// Whether trained parameters of fewer bits are held in float32, and cast
  /// where the model reads them.
  bool holdsMasters = false;
  /// Low-rank matrices that linear layers get; absent: none.
  std::optional<AdapterRequest> adapter;
  /// Whether RMS norms that the model writes out become LibTorch's.
  bool fusesNorms = false;
  /// Whether ranks will have parts of sequences each: attention then stays one
  /// call.
  bool cutsSequences = false;
  /// Documents that a row of a batch may hold, where kernels are told where
  /// they begin; 0: as many as `countDocuments` says.
  int64_t documentsPerRow = 0;
  /// Ranks that share out the heads of attention.
  int64_t headParts = 1;
  /// The loss is multiplied by the share of labels that count, which is an
  /// output beside it (support/LossWeight.h).
  bool weighsLoss = false;
  /// NEFTune's alpha: noise on what the embedding of tokens gives; 0: none.
  double noiseAlpha = 0;
  /// First value of what the loss is multiplied by before it is differentiated;
  /// absent: by nothing.
  std::optional<double> lossScale;

  /// Of rows of so many positions: those of 128 on average, and eight of short
  /// rows.
  int64_t countDocuments(int64_t length) const {
    return documentsPerRow ? documentsPerRow
                           : std::max<int64_t>((length + 127) / 128, 8);
  }
};

/// A tensor that the model returns, as --explain shows it.
struct OutputSummary {
  std::string name;
  std::string dtype; ///< as MLIR prints it: f32, i64, i1, …
  std::vector<int64_t> shape;
  bool isKept = false; ///< the loss or a result of the program
};

} // namespace fsdp

#endif // FSDP_IR_CAPTURE_REQUEST_CAPTUREREQUEST_H
