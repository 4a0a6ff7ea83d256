//===- KernelBench.cpp - Kernels beside copies of as many bytes -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   fsdp-kernel-bench [ROWS COLUMNS [TARGET [WORD]]]
//
// On one thread, in turns; the median of 15. TARGET is a processor's name in
// kernels/Library.h; of kernels, those whose name has the word.
//
//===----------------------------------------------------------------------===//

#include "kernels/CodeImage.h"
#include "kernels/CodeLibrary.h"
#include "plan/DType.h"
#include "plan/Kernels.h"
#include "support/Error.h"
#include "test/unit/kernels/Samples.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

using namespace fsdp;
using plan::DType;

namespace {

/// Aligned memory of a program's operands.
class Memory {
public:
  /// `inPlace`: what is written lies over what is read, in order, where it may.
  Memory(const plan::KernelProgramT &program, bool inPlace) {
    std::vector<bool> isTaken(program.operands.size());
    for (size_t i = 0; i < program.operands.size(); ++i) {
      size_t read = 0;
      while (read < i &&
             (!inPlace || isTaken[read] || !mayOverwrite(program, i, read)))
        ++read;
      DType dtype = program.operands[i]->dtype;
      size_t bytes = extentOf(program, i) * dtypeBytes(dtype);
      total += bytes;
      if (read < i) {
        isTaken[read] = true;
        addresses.push_back(addresses[read]);
        continue;
      }
      // At other places in their pages: else each store seems to be what the
      // next loads wait for.
      size_t room = (bytes + 16383) / 4096 * 4096;
      blocks.emplace_back(std::aligned_alloc(4096, room), std::free);
      auto *first = static_cast<char *>(blocks.back().get()) + 832 * i;
      fill(first, bytes, dtype);
      addresses.push_back(first);
    }
  }

  std::vector<void *> addresses;
  size_t total = 0; ///< bytes that are read or written

private:
  static void fill(void *to, size_t bytes, DType dtype) {
    for (size_t i = 0; i < bytes / dtypeBytes(dtype); ++i) {
      float number = float(int(i * 7919 % 2001) - 1000) / 500 + 0.001f;
      if (dtype == DType::f32)
        std::memcpy(static_cast<char *>(to) + 4 * i, &number, 4);
      else if (dtype == DType::bf16)
        std::memcpy(static_cast<char *>(to) + 2 * i,
                    reinterpret_cast<char *>(&number) + 2, 2);
      else
        std::memset(static_cast<char *>(to) + i * dtypeBytes(dtype), 0,
                    dtypeBytes(dtype));
    }
  }
  std::vector<std::unique_ptr<void, decltype(&std::free)>> blocks;
};

double secondsOf(const auto &run) {
  auto begin = std::chrono::steady_clock::now();
  run();
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return took.count();
}

/// One that nobody finds to be of no use.
[[gnu::noinline]] void copyAll(char *to, const char *from, size_t bytes) {
  std::memcpy(to, from, bytes);
  asm volatile("" : : "r"(to) : "memory");
}

double medianOf(std::vector<double> times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
}

void measure(const Sample &sample, DType dtype, std::string_view target) {
  CodeImage image(makeCode(serialize(sample.program), target));
  // States are updated where they are.
  Memory memory(sample.program, sample.name == "AdamW");
  std::unique_ptr<char[]> from(new char[memory.total / 2]),
      to(new char[memory.total / 2]);
  std::memset(from.get(), 1, memory.total / 2);
  int64_t range = isFlat(sample.program) ? int64_t(columnsOf(sample.program))
                                         : rowsOf(sample.program);
  std::vector<double> kernels, copies;
  for (int round = 0; round < 16; ++round) {
    double kernel =
        secondsOf([&] { image.run(memory.addresses.data(), 0, range); });
    double copy =
        secondsOf([&] { copyAll(to.get(), from.get(), memory.total / 2); });
    if (round > 0) { // the first one touches pages
      kernels.push_back(kernel);
      copies.push_back(copy);
    }
  }
  double kernel = medianOf(kernels), copy = medianOf(copies);
  std::printf("%-5s %-24s %8.2f ms %7.1f GB/s  copy %8.2f ms  ratio %5.2f  "
              "%zu bytes\n",
              dtype == DType::f32 ? "f32" : "bf16", sample.name.c_str(),
              kernel * 1e3, double(memory.total) / kernel / 1e9, copy * 1e3,
              kernel / copy, image.bytes().size());
}

} // namespace

int main(int argc, char **argv) try {
  int64_t rows = argc > 2 ? std::atoll(argv[1]) : 2048;
  uint64_t columns = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 4096;
  std::string_view target = argc > 3 ? argv[3] : targetOfProcessor();
  for (DType dtype : {DType::f32, DType::bf16})
    for (const Sample &sample : makeSamples(dtype, rows, columns))
      if (argc < 5 || sample.name.find(argv[4]) != std::string::npos)
        measure(sample, dtype, target);
} catch (const Error &error) {
  std::fprintf(stderr, "%s\n", error.format().c_str());
  return error.exitStatus();
}
