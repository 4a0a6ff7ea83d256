//===- AttentionMask.h - What a mask says of attention ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_META_ATTENTIONMASK_H
#define FSDP_IR_CAPTURE_META_ATTENTIONMASK_H

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fsdp::meta {

/// Which keys each query sees, of masks for which kernels have a flag.
enum class MaskForm : uint8_t {
  Unknown, ///< depends on data, or is none of these
  All,     ///< all
  Causal,  ///< query i keys 0 to i
};

/// Knows what the masks are that calls of attention get.
class MaskReader {
public:
  virtual ~MaskReader() = default;

  /// `mask`, which is added to scores or says which keys take part, broadcasts
  /// to [..., queries, keys].
  virtual MaskForm read(const at::Tensor &mask, int64_t queries,
                        int64_t keys) = 0;
};

/// The thread's reader: none outside of any scope.
MaskReader *getMaskReader();

/// Sets the thread's reader for as long as it lives.
class MaskReaderScope {
public:
  explicit MaskReaderScope(MaskReader &reader);
  ~MaskReaderScope();
  MaskReaderScope(const MaskReaderScope &) = delete;
  MaskReaderScope &operator=(const MaskReaderScope &) = delete;

private:
  MaskReader *previous;
};

} // namespace fsdp::meta

#endif // FSDP_IR_CAPTURE_META_ATTENTIONMASK_H
