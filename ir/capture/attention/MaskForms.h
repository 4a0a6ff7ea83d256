//===- MaskForms.h - Which keys masks let be seen ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An export holds a causal mask as the operators that compute it: positions,
// comparisons, documents of which there is one. Eager PyTorch gives a flag
// instead, with which attention takes half of the time and no memory. Windows,
// prefixes and chunks have no flag, but keys that no query of a block sees need
// not be multiplied.
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

/// What `mask` says of so many queries and keys; a row in which nothing is
/// visible, or rows that differ between batches or heads, make it Unknown.
meta::MaskReading classify(const Steps &mask, int64_t queries, int64_t keys);

/// What the value, a mask, says; compares with rows of it that all operators
/// compute as they are, all if they are few. Throws std::logic_error if they
/// are others.
meta::MaskReading readMask(ConstantValues &values, capture::ValueId mask,
                           int64_t queries, int64_t keys);

/// What two masks say together, where a key has to be seen under both; Unknown
/// if a query then sees none.
meta::MaskReading intersect(const meta::MaskReading &a,
                            const meta::MaskReading &b, int64_t keys);

/// Numbers of rows to compare, of so many: all, or some by chance, the first
/// and the last among them.
at::Tensor chooseRows(int64_t rows, int64_t columns);

} // namespace fsdp::attention

#endif // FSDP_IR_CAPTURE_ATTENTION_MASKFORMS_H
