//===- AdaptedOperators.h - Operators that compute layers -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_JOINT_ADAPTEDOPERATORS_H
#define FSDP_IR_CAPTURE_JOINT_ADAPTEDOPERATORS_H

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <string_view>
#include <vector>

namespace fsdp::capture {

enum class LayerKind {
  Linear,      ///< [out, in]
  Turned,      ///< [in, out], as transformers' Conv1D
  Embedding,   ///< [rows, width]
  Convolution, ///< [out, in, …]
};

/// An operator that computes a layer.
struct AdaptedOperator {
  std::string_view name;
  LayerKind kind;
  std::string_view input; ///< what dropout is applied to; empty: nothing
  std::string_view weight, bias;

  /// Whether the weight is [in, out].
  bool isTurned() const {
    return kind == LayerKind::Turned || kind == LayerKind::Embedding;
  }
};

/// Null if the operator computes no layer that an adapter fits.
const AdaptedOperator *findAdaptedOperator(const c10::OperatorHandle &op);

/// The call's argument; null if the operator has none of that name.
c10::IValue *findArgument(const c10::OperatorHandle &op,
                          std::vector<c10::IValue> &stack,
                          std::string_view name);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_ADAPTEDOPERATORS_H
