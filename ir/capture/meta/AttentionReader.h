//===- AttentionReader.h - What attention is given --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_META_ATTENTIONREADER_H
#define FSDP_IR_CAPTURE_META_ATTENTIONREADER_H

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp::meta {

using at::Tensor;

/// Which keys each query sees, where that is one range of keys for each query
/// and, but for documents and padding, depends on no data.
enum class MaskForm : uint8_t {
  Unknown, ///< depends on data, or is no such
  All,     ///< all
  Causal,  ///< query i keys 0 to i
  Window,  ///< those at most so far before it, and so far behind it
  Prefix,  ///< causal, and all see the first ones
  Chunks,  ///< causal within chunks of one length
  Ranges,  ///< any others: documents of fixed lengths, say
  /// Those of its own document, in rows of several one behind the other; where
  /// they begin, data may say.
  Documents,
  /// All, or those up to itself, but for keys that data hides from all queries
  /// of a row.
  Padding,
  CausalPadding,
  AddedPadding, ///< either, by a kernel that is not told
};

struct AttentionBlock;

/// What a call of attention is.
struct AttentionCall {
  /// What its mask, or its flag, says; nothing if it has none.
  std::optional<MaskForm> mask;
  /// By which kernel: "cudnn", "flash", "efficient". By none: "blocks" if it is
  /// decomposed in blocks of queries, "math" if at once; and then why.
  std::string_view kernel;
  std::string why;
  /// How many heads of queries share one of keys.
  int64_t sharing = 1;
};

/// What a mask says.
struct MaskReading {
  MaskForm form = MaskForm::Unknown;
  /// Query i sees the keys from `begin[i]` up to `end[i]`, at least one; i64,
  /// on the CPU. Undefined if the form is Unknown.
  Tensor begin, end;
  /// Of forms for which kernels have no flag: the blocks of queries to attend
  /// in; null or none for one call.
  std::shared_ptr<const std::vector<AttentionBlock>> blocks;
};

/// Documents in rows laid one behind the other, of which each query sees keys
/// of its own.
struct DocumentReading {
  /// [documents + 1], i32: where each begins, and the end of all; there may be
  /// fewer, the rest of which are empty.
  Tensor bounds;
  /// What else the mask says, of a document: All, Causal or Window.
  MaskReading within;
};

/// Keys that data hides from all queries of a row of the batch alike.
struct PaddingReading {
  Tensor seen; ///< [batch or 1, 1, 1, keys], true and false
  /// What else the mask says: All, or Causal if there are as many queries as
  /// keys.
  MaskForm within = MaskForm::Unknown;
};

/// Knows how the operands of attention were made.
class AttentionReader {
public:
  virtual ~AttentionReader() = default;

  /// `mask`, which is added to scores or says which keys take part, broadcasts
  /// to [..., queries, keys].
  virtual MaskReading read(const Tensor &mask, int64_t queries,
                           int64_t keys) = 0;

  /// The same of a mask that keeps documents apart, for attention of `length`
  /// positions with themselves in `batch` rows; nothing for others. `reading`
  /// is what `read` said of it.
  virtual std::optional<DocumentReading>
  readDocuments(const Tensor &mask, const MaskReading &reading, int64_t batch,
                int64_t length) = 0;

  /// The same of a mask that hides keys from all queries of a row.
  virtual std::optional<PaddingReading> readPadding(const Tensor &mask,
                                                    int64_t batch,
                                                    int64_t queries,
                                                    int64_t keys) = 0;

  /// Notes what a call became.
  virtual void note(const AttentionCall &call) = 0;

  /// What is added to scores for `mask` of true and false, `masked` where it is
  /// false: the same tensor whenever it is asked for.
  virtual Tensor getAdded(const Tensor &mask, at::ScalarType dtype,
                          double masked) = 0;

  /// A mask of as many rows as there are begins, [rows, keys], true from begin
  /// up to end; the same tensor for the same numbers.
  virtual Tensor getRanges(const Tensor &begin, const Tensor &end,
                           int64_t keys) = 0;

  /// The tensor of which `heads`, [batch, heads, length, width], has each head
  /// several times in a row, or `heads` itself if that is one for `queries`
  /// heads; undefined if it is none, or if ranks could not share it out.
  virtual Tensor findSharedHeads(const Tensor &heads, int64_t queries) = 0;

  /// Some rows of a tensor, along its last dim but one, where they depend on no
  /// data; on the CPU. Leading dims along which they are the same may be 1.
  /// Undefined if they are not known.
  virtual Tensor findRows(const Tensor &tensor, const Tensor &rows) = 0;

  /// Whether ranks get parts of sequences: these are not to be cut.
  virtual bool sharesSequences() const = 0;
};

/// What is added to scores for `mask` of true and false: 0, and `masked` where
/// it is false.
Tensor makeAdded(const Tensor &mask, at::ScalarType dtype, double masked);

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
