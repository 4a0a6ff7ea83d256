//===- TokensFuzzer.cpp - Damaged files of tokens -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The input is a file of tokens, or its index: as nanoGPT, llm.c and Megatron
// write them. The first byte says how much of it is the index.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/MegatronIndex.h"
#include "runtime/data/TokenFile.h"
#include "support/Error.h"
#include "test/fuzz/MemoryFile.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include <unistd.h>

using namespace fsdp;

static void read(const std::string &path, plan::TokenFormat format) {
  try {
    TokenFile file(path, format, plan::DType::u16);
    std::vector<std::byte> room(8 * 1024);
    for (plan::DType as : {plan::DType::i32, plan::DType::i64}) {
      uint64_t count = std::min<uint64_t>(file.size(), 1024);
      file.read(0, count, as, room.data());
      file.read(file.size() - count, count, as, room.data());
    }
  } catch (const Error &) {
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size)
    return 0;
  std::string_view bytes(reinterpret_cast<const char *>(data) + 1, size - 1);
  fuzz::MemoryFile whole(bytes);
  for (auto format : {plan::TokenFormat::recognized, plan::TokenFormat::raw,
                      plan::TokenFormat::llm_c})
    read(whole.path(), format);
  try {
    MegatronIndex::read(whole.path());
  } catch (const Error &) {
  }
  // Megatron's files are found by their names.
  static const std::string base =
      "/dev/shm/fsdp-fuzz-" + std::to_string(getpid());
  size_t index = bytes.size() * data[0] / 255;
  std::ofstream(base + ".idx", std::ios::binary) << bytes.substr(0, index);
  std::ofstream(base + ".bin", std::ios::binary) << bytes.substr(index);
  read(base + ".bin", plan::TokenFormat::megatron);
  read(base + ".bin", plan::TokenFormat::recognized);
  unlink((base + ".idx").c_str());
  unlink((base + ".bin").c_str());
  return 0;
}
