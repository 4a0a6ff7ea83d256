//===- Harness.h - What the fuzzers share -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A fuzzer hands arbitrary bytes to a reader. The reader may take them or throw
// fsdp::Error; anything else, another exception as well, is a defect.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_FUZZ_HARNESS_H
#define FSDP_TEST_FUZZ_HARNESS_H

#include "test/fuzz/MemoryFile.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fsdp::fuzz {

/// A zip archive of stored entries, with right checksums: mutations of an
/// entry's content get past the reader of archives.
std::string
makeArchive(const std::vector<std::pair<std::string, std::string>> &entries);

/// The parts of `text` between lines of "=====".
std::vector<std::string> splitParts(std::string_view text);

/// What `FILE` of the corpus was made from is an archive; runs the model's
/// front end on it as `fsdp-opt --explain` and `fsdp-opt` do.
void captureArchive(const std::string &path);

} // namespace fsdp::fuzz

#endif // FSDP_TEST_FUZZ_HARNESS_H
