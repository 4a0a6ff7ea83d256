//===- AttentionReader.h - What attention is given --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_META_ATTENTIONREADER_H
#define FSDP_IR_CAPTURE_META_ATTENTIONREADER_H

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fsdp::meta {

/// Which keys each query sees, of masks for which kernels have a flag.
enum class MaskForm : uint8_t {
  Unknown, ///< depends on data, or is none of these
  All,     ///< all
  Causal,  ///< query i keys 0 to i
};

/// Knows how the operands of attention were made.
class AttentionReader {
public:
  virtual ~AttentionReader() = default;

  /// `mask`, which is added to scores or says which keys take part, broadcasts
  /// to [..., queries, keys].
  virtual MaskForm read(const at::Tensor &mask, int64_t queries,
                        int64_t keys) = 0;

  /// The tensor of which `repeated`, [batch, heads, length, width], has each
  /// head several times in a row; undefined if it is none.
  virtual at::Tensor findSharedHeads(const at::Tensor &repeated) = 0;
};

/// The thread's reader: none outside of any scope.
AttentionReader *getAttentionReader();

/// Sets the thread's reader for as long as it lives.
class AttentionReaderScope {
public:
  explicit AttentionReaderScope(AttentionReader &reader);
  ~AttentionReaderScope();
  AttentionReaderScope(const AttentionReaderScope &) = delete;
  AttentionReaderScope &operator=(const AttentionReaderScope &) = delete;

private:
  AttentionReader *previous;
};

} // namespace fsdp::meta

#endif // FSDP_IR_CAPTURE_META_ATTENTIONREADER_H
