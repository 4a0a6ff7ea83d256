//===- FlexAttention.h - flex_attention in an exported graph ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What masks scores becomes a mask of `scaled_dot_product_attention`, what is
// added to them one of numbers where a kernel of the target takes that; what
// changes scores otherwise is computed as it is written, in blocks of queries.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_PT2_FLEXATTENTION_H
#define FSDP_IR_CAPTURE_PT2_FLEXATTENTION_H

#include "ir/capture/pt2/Interpreter.h"
#include "ir/capture/pt2/PairGraphs.h"

namespace fsdp::capture {

/// A call of flex_attention, evaluated but for its functions.
struct Pt2FlexCall {
  const json::Object &node;
  Pt2PairGraph score, mask;
  at::Tensor query, key, value; ///< [batch, heads, length, width]
  double scale = 1;
  int64_t queries = 0, keys = 0;        ///< that the mask is for
  int64_t queryBlock = 1, keyBlock = 1; ///< queries and keys of a block
  /// Of each row of blocks how many are computed, [batch, heads, rows], and
  /// which, [batch, heads, rows, columns]: those in part masked, and those in
  /// which all is seen, which may be undefined.
  std::array<at::Tensor, 4> tables;
  std::vector<c10::IValue> scoreBuffers, maskBuffers;
};

/// Throws Error for a call that is not supported: its functions alone, without
/// running anything.
void checkPt2FlexAttention(const Pt2Region &region, const json::Object &node);

/// Output; logsumexp to the base of 2, zeros unless `needsSums`; zeros in place
/// of the largest scores. Throws Error.
std::vector<c10::IValue> callPt2FlexAttention(const Pt2FlexCall &call,
                                              bool needsSums, FlexMasks &masks,
                                              Recorder *recorder);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_FLEXATTENTION_H
