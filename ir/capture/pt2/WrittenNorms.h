//===- WrittenNorms.h - RMS norms that a model writes out -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hugging Face's norms are several operators:
//
//   wide = x.to(torch.float32)
//   wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
//   return self.weight * wide.to(x.dtype)
//
// or with the cast behind the weight, without either of them, or with 1 +
// weight. They are told apart from what only looks like them in the exported
// graph.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_PT2_WRITTENNORMS_H
#define FSDP_IR_CAPTURE_PT2_WRITTENNORMS_H

#include "ir/capture/pt2/Json.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>

namespace fsdp::capture {

/// Values of the graph that belong to one norm.
struct Pt2WrittenNorm {
  std::string source; ///< in front of the cast to float32
  std::string root;   ///< what it is multiplied by
  std::string weight; ///< of the last dim; empty: none
  double eps = 0;
  bool isWeightedWide = false; ///< the weight comes before the cast back
};

class Pt2WrittenNorms {
public:
  /// None.
  Pt2WrittenNorms() = default;
  explicit Pt2WrittenNorms(const json::Object &graph);

  /// The norm that ends with the value `result`; null if none does.
  const Pt2WrittenNorm *find(const std::string &result) const;

  /// Why what begins with the mean `value` is no norm that is known, though it
  /// looks like one; null for anything else.
  const std::string *findUnlike(const std::string &value) const;

private:
  friend class Pt2NormMatcher;
  std::unordered_map<std::string, Pt2WrittenNorm> norms;
  std::unordered_map<std::string, std::string> unlike;
};

/// LibTorch's norm of `source`, in the type of `written`; undefined, and `why`
/// says why, where it has none with these types.
at::Tensor fuseNorm(const Pt2WrittenNorm &norm, const at::Tensor &source,
                    const at::Tensor &root,
                    const std::optional<at::Tensor> &weight,
                    const at::Tensor &written, std::string &why);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_WRITTENNORMS_H
