//===- TokenFile.h - One file of tokens -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_TOKENFILE_H
#define FSDP_RUNTIME_DATA_TOKENFILE_H

#include "plan/plan_generated.h"
#include "support/MappedFile.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace fsdp {

/// The tokens of a file, one behind the other, as nanoGPT (the tokens alone),
/// llm.c (behind a header) or Megatron (beside an index) write them.
class TokenFile {
public:
  /// What `format` leaves open is found out; `rawType` is the element type of
  /// files that do not state theirs. Throws fsdp::Error: FileNotReadable,
  /// DataFileInvalid.
  TokenFile(const std::string &path, plan::TokenFormat format,
            plan::DType rawType);

  const std::string &path() const { return file.path(); }
  /// Number of tokens.
  uint64_t size() const { return count; }

  /// Puts tokens [first, first + number) to `to`, as numbers of type `as`, i32
  /// or i64. Throws fsdp::Error (FileNotReadable).
  void read(uint64_t first, uint64_t number, plan::DType as,
            std::byte *to) const;

private:
  [[noreturn]] void refuse(const std::string &what) const;
  plan::TokenFormat recognize() const;
  void readLlmC();
  void readMegatron();
  void setTokens(uint64_t begin, plan::DType type);

  MappedFile file;
  uint64_t offset = 0; ///< of the first token, in bytes
  uint64_t count = 0;
  plan::DType type;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_TOKENFILE_H
