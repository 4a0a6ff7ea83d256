//===- MegatronIndex.h - What stands beside Megatron's tokens ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_MEGATRONINDEX_H
#define FSDP_RUNTIME_DATA_MEGATRONINDEX_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <string>

namespace fsdp {

/// What a .idx file says of the tokens of its .bin file, which are sequences
/// one behind the other, of documents one behind the other.
struct MegatronIndex {
  plan::DType type; ///< of the tokens
  uint64_t tokens;  ///< of all sequences

  /// Checks that sequences lie one behind the other without gaps, so that they
  /// are one stream. Throws fsdp::Error: FileNotReadable, DataFileInvalid.
  static MegatronIndex read(const std::string &path);

  /// "data.idx" of "data.bin", whether it exists or not; empty for a path that
  /// does not end in .bin.
  static std::string pathOf(const std::string &tokens);
  /// Whether the bytes are the beginning of an index.
  static bool isIndex(const char *bytes, uint64_t size);
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_MEGATRONINDEX_H
