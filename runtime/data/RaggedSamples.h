//===- RaggedSamples.h - Rows of lengths of their own -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_RAGGEDSAMPLES_H
#define FSDP_RUNTIME_DATA_RAGGEDSAMPLES_H

#include "runtime/data/Samples.h"

#include <optional>
#include <string_view>

namespace fsdp {

/// The tensor of such a file that says where rows begin.
inline constexpr std::string_view kRowOffsets = "row_offsets";
/// The input whose rows say which tokens are there.
inline constexpr std::string_view kAttentionMask = "attention_mask";

/// A safetensors file whose rows have lengths of their own: `row_offsets` of
/// N + 1 numbers, in which row i is the tokens from row_offsets[i] to
/// row_offsets[i + 1] of tensors that have the tokens of all rows one behind
/// the other along their first dim. Rows are padded to the second dim of the
/// input that they are for. A tensor with as many dims as its input has N rows
/// without lengths.
class RaggedSamples final : public Samples, private RowLengths {
public:
  /// `data` says what inputs are padded with. Throws fsdp::Error:
  /// FileNotReadable, DataFileInvalid.
  RaggedSamples(const std::string &path, const plan::DataT &data);

  /// Whether the file has the tensor `row_offsets`. Throws as above.
  static bool isOne(const std::string &path);

  std::vector<std::string> names() const override;
  /// An attention mask of integers or truth values, a row for each of tokens:
  /// it is 1 for those that are there, and 0 for padding.
  bool makes(const plan::InputT &input) const override;
  const RowLengths *lengths() const override { return this; }
  std::unique_ptr<RowReader> open(const plan::InputT &input) const override;

private:
  class Reader;
  class MaskReader;

  // RowLengths.
  uint64_t rows() const override { return count; }
  std::vector<uint64_t> of(std::span<const uint64_t> rows) const override;
  std::pair<uint64_t, uint64_t> longest() const override { return most; }
  std::string hash() const override;

  uint64_t offset(uint64_t row) const;
  /// First token and number of them. Throws fsdp::Error (FileNotReadable) if
  /// the file has changed meanwhile.
  std::pair<uint64_t, uint64_t> find(uint64_t row) const;
  void readOffsets();
  std::string encodePadding(const plan::InputT &input) const;

  std::vector<std::pair<std::string, double>> padding;
  const StoredTensor *offsets = nullptr;
  uint64_t count = 0, tokens = 0;
  std::pair<uint64_t, uint64_t> most; ///< the longest row and its length
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_RAGGEDSAMPLES_H
