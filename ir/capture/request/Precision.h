//===- Precision.h - Dtypes to compute and reduce in ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_REQUEST_PRECISION_H
#define FSDP_IR_CAPTURE_REQUEST_PRECISION_H

#include <string>
#include <vector>

namespace fsdp {

/// FSDP2's MixedPrecisionPolicy. Dtypes have torch's names; an empty one leaves
/// the original dtype.
struct PrecisionPolicy {
  std::string paramDtype;  ///< of parameters and of what they compute
  std::string reduceDtype; ///< in which gradients are reduced
  std::string outputDtype; ///< of what the module returns
  bool castForwardInputs = true;

  bool isEmpty() const {
    return paramDtype.empty() && reduceDtype.empty() && outputDtype.empty();
  }
  bool operator==(const PrecisionPolicy &) const = default;

  /// "param_dtype=bfloat16 reduce_dtype=float32".
  std::string describe() const {
    std::string text;
    auto add = [&](const std::string &key, const std::string &value) {
      if (!value.empty())
        text += (text.empty() ? "" : " ") + key + "=" + value;
    };
    add("param_dtype", paramDtype);
    add("reduce_dtype", reduceDtype);
    add("output_dtype", outputDtype);
    add("cast_forward_inputs",
        castForwardInputs || paramDtype.empty() ? "" : "false");
    return text;
  }
};

/// A policy of modules of their own, as if each were wrapped with it.
struct PrecisionOverride {
  /// Shell patterns of module paths; a module that matches is meant with all
  /// beneath it.
  std::vector<std::string> modules;
  PrecisionPolicy policy;

  bool operator==(const PrecisionOverride &) const = default;
};

struct Precision {
  PrecisionPolicy policy;                   ///< of all that no override names
  std::vector<PrecisionOverride> overrides; ///< the last that matches counts

  bool isEmpty() const { return policy.isEmpty() && overrides.empty(); }
  bool operator==(const Precision &) const = default;

  /// One line, which is equal for equal policies; empty if there is none.
  std::string describe() const {
    std::string text = policy.describe();
    for (const PrecisionOverride &override : overrides) {
      std::string patterns;
      for (const std::string &pattern : override.modules)
        patterns += (patterns.empty() ? "" : ",") + pattern;
      text += (text.empty() ? "" : "; ") + patterns + ": " +
              override.policy.describe();
    }
    return text;
  }
};

} // namespace fsdp

#endif // FSDP_IR_CAPTURE_REQUEST_PRECISION_H
