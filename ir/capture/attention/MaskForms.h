//===- MaskForms.h - Masks that kernels have a flag for ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An export holds a causal mask as the operators that compute it: positions,
// comparisons, documents of which there is one. Eager PyTorch gives a flag
// instead, with which attention takes half of the time and no memory.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_ATTENTION_MASKFORMS_H
#define FSDP_IR_CAPTURE_ATTENTION_MASKFORMS_H

#include "ir/capture/attention/ConstantValues.h"
#include "ir/capture/meta/AttentionReader.h"

namespace fsdp::attention {

/// The keys that each query sees, one range: those from `begin` up to `end`.
struct VisibleKeys {
  at::Tensor begin, end; ///< [..., queries], i64; leading sizes may be 1
};

/// Nothing if a row has a number that is neither 0 nor low (true or false), or
/// keys in several ranges. Low is -inf, and the least number of the dtype: what
/// is added to it vanishes, so that such a key has weight 0 beside any other.
std::optional<VisibleKeys> findVisible(const Steps &mask);

/// Which form `mask` has for so many queries and keys; a row in which nothing
/// is visible makes it Unknown.
meta::MaskForm classify(const Steps &mask, int64_t queries, int64_t keys);

/// What the value, a mask, is; compares with rows of it that all operators
/// compute as they are, all if they are few. Throws std::logic_error if they
/// are others.
meta::MaskForm readForm(ConstantValues &values, capture::ValueId mask,
                        int64_t queries, int64_t keys);

} // namespace fsdp::attention

#endif // FSDP_IR_CAPTURE_ATTENTION_MASKFORMS_H
