//===- Adapter.h - Low-rank matrices beside a model's own -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_REQUEST_ADAPTER_H
#define FSDP_IR_CAPTURE_REQUEST_ADAPTER_H

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// In front of a pattern of layers that is a regular expression (ECMAScript) of
/// their whole path.
inline constexpr std::string_view kRegexPrefix = "re:";

/// Where an adapter's two matrices start.
enum class AdapterInit {
  Default,  ///< as PEFT: Kaiming's uniform distribution, and zero
  Gaussian, ///< normal(0, 1 / rank), and zero
  Pissa,    ///< the largest singular vectors of the base, which lacks them then
  Loftq     ///< those of what the base loses as codes
};

/// Which biases are trained beside adapters.
enum class TrainedBias {
  None,
  All,     ///< those of the whole model
  LoraOnly ///< those of the layers that have an adapter
};

/// Adapters (LoRA) that capture gives a model, as PEFT's LoraConfig says it:
/// base(x) + getScale() * up(down(dropout(x))). All else is frozen.
struct AdapterRequest {
  int64_t rank = 8;
  double alpha = 8;
  double dropout = 0; ///< of what `down` reads
  bool rankStabilized = false;
  AdapterInit init = AdapterInit::Default;
  /// Of Pissa: of a randomised decomposition; 0: the exact one.
  int64_t iterations = 0;
  /// Whether each of a layer's outs has a norm that is trained (DoRA).
  bool hasMagnitudes = false;
  TrainedBias bias = TrainedBias::None;
  /// Which layers: patterns of their paths, or of modules around linear layers;
  /// a name without dots is any module's own, "re:…" a regular expression.
  /// Empty: all linear layers but those that compute the model's output.
  std::vector<std::string> modules;
  std::vector<std::string> skip; ///< the same, of layers that have none
  /// Parameters that are adapted themselves, whoever reads them, such as those
  /// of several experts: patterns of their names.
  std::vector<std::string> parameters;
  /// Only in modules of a list whose number is one of these; empty: in all.
  std::vector<int64_t> layers;
  std::vector<std::string> alsoTrain; ///< of modules or parameters
  /// Whether a model that has adapters of its own keeps these and gets none; it
  /// is refused otherwise.
  bool yieldsToOwn = false;
  /// Why there are no such adapters, "fsdp.yaml:3:1: …": an error for a model
  /// that has none of its own. Empty: there are.
  std::string obstacle;

  double getScale() const {
    auto width = static_cast<double>(rank);
    return alpha / (rankStabilized ? std::sqrt(width) : width);
  }
};

} // namespace fsdp

#endif // FSDP_IR_CAPTURE_REQUEST_ADAPTER_H
