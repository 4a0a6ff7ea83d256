//===- Replay.cpp - Seeds of the fuzzers, read once -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// fuzz-replay CORPUS hands each seed to its fuzzer's function, as libFuzzer
// does first. What a fuzzer takes for a defect ends the program.
//
//===----------------------------------------------------------------------===//

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

using Fuzzer = int(const uint8_t *data, size_t size);
extern "C" Fuzzer fuzz_archive, fuzz_config, fuzz_pt2, fuzz_torchscript;

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: fuzz-replay CORPUS\n");
    return 2;
  }
  const std::pair<const char *, Fuzzer *> fuzzers[] = {
      {"archive", fuzz_archive},
      {"config", fuzz_config},
      {"pt2", fuzz_pt2},
      {"torchscript", fuzz_torchscript}};
  for (auto [name, fuzzer] : fuzzers) {
    std::vector<std::filesystem::path> seeds;
    for (const auto &entry : std::filesystem::directory_iterator(
             std::filesystem::path(argv[1]) / name))
      seeds.push_back(entry.path());
    std::sort(seeds.begin(), seeds.end());
    for (const std::filesystem::path &seed : seeds) {
      std::printf("%s\n", seed.c_str());
      std::fflush(stdout); // for what ends the program
      std::ifstream stream(seed, std::ios::binary);
      std::string bytes(std::istreambuf_iterator<char>(stream), {});
      fuzzer(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
    }
    if (seeds.empty()) {
      std::fprintf(stderr, "%s has no seeds in %s\n", name, argv[1]);
      return 1;
    }
  }
}
