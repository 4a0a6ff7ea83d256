//===- DataFiles.h - Token files for tests ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_DATA_DATAFILES_H
#define FSDP_TEST_UNIT_RUNTIME_DATA_DATAFILES_H

#include "support/Error.h"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <string>
#include <vector>

namespace fsdp::test {

template <typename T>
std::string toBytes(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()),
          values.size() * sizeof(T)};
}

inline void writeFile(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// first, first + 1, …
template <typename T>
std::vector<T> makeTokens(size_t count, T first = 0) {
  std::vector<T> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// As llm.c writes files.
template <typename T>
std::string makeLlmC(uint32_t magic, uint32_t version,
                     const std::vector<T> &tokens) {
  std::vector<uint32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<uint32_t>(tokens.size());
  return toBytes(header) + toBytes(tokens);
}

/// Megatron's index of sequences with these lengths.
inline std::string makeMegatronIndex(uint8_t type, size_t tokenBytes,
                                     const std::vector<int32_t> &lengths) {
  std::string bytes("MMIDIDX\0\0", 9);
  std::vector<int64_t> offsets, documents{0};
  int64_t offset = 0;
  for (int32_t length : lengths) {
    offsets.push_back(offset);
    offset += length * static_cast<int64_t>(tokenBytes);
    documents.push_back(static_cast<int64_t>(documents.size()));
  }
  bytes += toBytes<uint64_t>({1});
  bytes += static_cast<char>(type);
  bytes += toBytes<uint64_t>({lengths.size(), documents.size()});
  return bytes + toBytes(lengths) + toBytes(offsets) + toBytes(documents);
}

template <typename Body>
void expectError(ErrorId id, const std::string &text, Body body) {
  try {
    body();
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), id) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos)
        << error.what();
    return;
  }
  ADD_FAILURE() << "expected an error with '" << text << "'";
}

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_DATA_DATAFILES_H
