//===- Documents.h - Masks that keep documents apart ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of several documents, one behind the other: a query sees keys of its own
// document alone. Where they begin, data says; that they are runs of positions,
// the program says, and so a kernel can be told where these begin.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_ATTENTION_DOCUMENTS_H
#define FSDP_IR_CAPTURE_ATTENTION_DOCUMENTS_H

#include "ir/capture/attention/MaskForms.h"

#include <vector>

namespace fsdp::attention {

/// A mask under which positions see each other if their numbers in `ids` are
/// equal, and `within` lets them.
struct Documents {
  /// [batch or 1, length] or [length], whole numbers that never fall along a
  /// row.
  capture::ValueId ids;
  /// All, Causal or Window.
  meta::MaskReading within;
};

/// Nothing if `mask`, of attention of `length` positions with themselves in
/// `batch` rows, is none, or if it isn't known to be one. What was found is
/// compared with rows of the mask as all operators compute them of numbers
/// drawn for `ids`; throws std::logic_error if these are others.
std::optional<Documents> findDocuments(const capture::JointGraph &graph,
                                       ConstantValues &values,
                                       capture::ValueId mask, int64_t batch,
                                       int64_t length);

/// Where documents begin in rows laid one behind the other, [most + 1], int32:
/// as many as there are, and then the end of all, again and again. `ids` is
/// [batch, length]. Of more documents than `most` a program fails: an index of
/// its scatter is out of range.
at::Tensor makeBounds(const at::Tensor &ids, int64_t most);

/// The same of documents that depend on no data: those within which `mask`
/// lets positions see those up to themselves, or all. Nothing if it doesn't.
struct FixedDocuments {
  std::vector<int64_t> begins; ///< of a row; and its length
  bool isCausal;
};
std::optional<FixedDocuments> findFixedDocuments(const meta::MaskReading &mask);

/// As `makeBounds`, in `batch` rows: numbers of the program.
at::Tensor makeFixedBounds(const FixedDocuments &documents, int64_t batch);

} // namespace fsdp::attention

#endif // FSDP_IR_CAPTURE_ATTENTION_DOCUMENTS_H
