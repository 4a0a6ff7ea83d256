//===- Padding.h - Keys that data hides from all queries --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of a batch that are shorter than others are filled up, and a mask hides
// what fills them: the same keys from all queries of a row. So the mask is a
// vector for each row, beside what depends on no data.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_ATTENTION_PADDING_H
#define FSDP_IR_CAPTURE_ATTENTION_PADDING_H

#include "ir/capture/attention/MaskForms.h"

#include <vector>

namespace fsdp::attention {

/// A mask under which a query sees the keys that are true in all of `seen`, and
/// that `within` lets it see.
struct Padding {
  /// True and false, of sizes that broadcast to [batch, 1, 1, keys]. Which keys
  /// data hides, is not known: perhaps some in the middle, or all of a row.
  std::vector<capture::ValueId> seen;
  /// All or Causal.
  meta::MaskForm within;
};

/// Nothing if `mask`, of attention of more than one query to more than one key
/// in `batch` rows, is none, or if it isn't known to be one. What was found is
/// compared with rows of the mask as all operators compute them of data drawn
/// for `seen`; throws std::logic_error if these are others.
std::optional<Padding> findPadding(const capture::JointGraph &graph,
                                   ConstantValues &values,
                                   capture::ValueId mask, int64_t batch,
                                   int64_t queries, int64_t keys);

} // namespace fsdp::attention

#endif // FSDP_IR_CAPTURE_ATTENTION_PADDING_H
