//===- Tokens.h - Windows of token files ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_TOKENS_H
#define FSDP_RUNTIME_DATA_TOKENS_H

#include "runtime/data/RowSource.h"
#include "runtime/data/TokenFile.h"

namespace fsdp {

/// Token files, cut into windows of as many tokens as a row of the inputs has.
/// Window i of a file begins at token i * T and does not overlap the next; the
/// targets' row is the window one token later. What is left of a file and does
/// not fill a window with its targets is not read; no window crosses files.
class Tokens final : public RowSource {
public:
  /// `data` names the files, or patterns of them (Files.h), and the inputs.
  /// Throws fsdp::Error: FileNotReadable, DataFileInvalid.
  explicit Tokens(const plan::DataT &data);

  std::string describe() const override;
  std::vector<std::string> paths() const override;
  std::vector<std::string> names() const override;
  std::unique_ptr<RowReader> open(const plan::InputT &input) const override;

private:
  std::vector<std::unique_ptr<TokenFile>> files;
  std::vector<std::string> inputs, targets;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_TOKENS_H
