//===- PtxTest.cpp - PTX computes what the interpreter does ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In a machine of our own. FSDP_KERNEL_PROGRAMS in the environment: how many
// random programs are tried.
//
//===----------------------------------------------------------------------===//

#include "kernels/Ptx.h"
#include "kernels/CodeLibrary.h"
#include "kernels/Interpreter.h"
#include "plan/DType.h"
#include "test/unit/kernels/Nearly.h"
#include "test/unit/kernels/Operands.h"
#include "test/unit/kernels/Programs.h"
#include "test/unit/kernels/PtxMachine.h"
#include "test/unit/kernels/Samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>

#include <unistd.h>

using namespace fsdp;
using plan::DType;

namespace {

/// Runs a program's PTX as a GPU's host would.
class Device {
public:
  Device(const plan::KernelProgramT &program, const std::string &target)
      : program(program), ptx(makeCode(serialize(program), target)) {
    auto found = readLaunches(ptx);
    EXPECT_TRUE(found);
    for (const PtxLaunch &launch : *found)
      launches[launch.entry] = launch;
  }

  void run(std::vector<void *> addresses) {
    std::map<size_t, std::vector<float>> partials;
    bool areAligned = true;
    std::vector<void *> given = addresses;
    for (size_t i = 0; i < addresses.size(); ++i) {
      if (takesRowSum(program, i)) {
        // Of NaNs: each place is to be written.
        partials[i].assign(
            launches["kernel"].partialRows * program.operands[i]->columns, NAN);
        given[i] = partials[i].data();
      }
      areAligned &= reinterpret_cast<uint64_t>(given[i]) % 16 == 0;
    }
    launch(areAligned ? "kernel_aligned" : "kernel", given, partials);
    for (auto &[i, partial] : partials)
      launch("sum_" + std::to_string(i), {partial.data(), addresses[i]},
             partials);
  }

  std::map<std::string, PtxLaunch> launches;

private:
  void launch(const std::string &entry, const std::vector<void *> &addresses,
              std::map<size_t, std::vector<float>> &partials) {
    PtxProgram code(ptx, entry);
    PtxMachine machine(code);
    for (auto &[i, partial] : partials) {
      machine.allow(partial.data(), 4 * partial.size());
      if (entry != "kernel" && entry != "kernel_aligned")
        machine.allow(addresses[1], 4 * program.operands[i]->columns);
    }
    if (entry == "kernel" || entry == "kernel_aligned")
      for (size_t i = 0; i < addresses.size(); ++i)
        if (!takesRowSum(program, i))
          machine.allow(addresses[i],
                        extentOf(program, i) *
                            dtypeBytes(program.operands[i]->dtype));
    const PtxLaunch &launch = launches.at(entry);
    machine.launch(launch.blocks, launch.threads, addresses);
  }

  const plan::KernelProgramT &program;
  std::string ptx;
};

} // namespace

/// Whether sums' order is the processors': there is none.
static bool hasReductions(const plan::KernelProgramT &program) {
  return std::ranges::any_of(program.ops, [](const auto &op) {
    return kindOf(*op) == KernelOpKind::sum_columns ||
           kindOf(*op) == KernelOpKind::sum_rows;
  });
}

static bool isSmall(const plan::KernelProgramT &program) {
  return rowsOf(program) * int64_t(columnsOf(program)) < 4000;
}

/// Bit for bit.
static void compareExactly(const plan::KernelProgramT &program, uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + toText(program));
  int64_t range =
      isFlat(program) ? int64_t(columnsOf(program)) : rowsOf(program);
  Device device(program, "sm_80/exact");
  std::mt19937_64 random(seed);
  for (bool overlays : {false, true}) {
    Operands expected(program, random, overlays), found = expected;
    interpret(program, expected.addresses(), 0, range);
    ASSERT_NO_THROW(device.run(found.addresses()));
    ASSERT_EQ(found.compare(expected), std::nullopt);
  }
}

TEST(KernelPtx, ExactCodeHasTheInterpretersBits) {
  const char *wanted = std::getenv("FSDP_KERNEL_PROGRAMS");
  uint64_t count = wanted ? std::strtoull(wanted, nullptr, 10) : 60, tried = 0;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    std::mt19937_64 random(seed);
    plan::KernelProgramT program = makeRandomProgram(random);
    if (checkKernel(program) || hasReductions(program) || !isSmall(program))
      continue;
    ++tried;
    compareExactly(program, seed);
    if (HasFatalFailure())
      return;
  }
  EXPECT_GT(tried, count / 8);
}

/// Sums have another order: that they stay within their operands, and that no
/// thread waits for ever, the machine sees.
TEST(KernelPtx, SumsStayWithinTheirOperands) {
  uint64_t tried = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    std::mt19937_64 random(seed);
    plan::KernelProgramT program = makeRandomProgram(random);
    if (checkKernel(program) || !hasReductions(program) || !isSmall(program))
      continue;
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + toText(program));
    ++tried;
    Operands operands(program, random, true);
    ASSERT_NO_THROW(Device(program, "sm_90").run(operands.addresses()));
  }
  EXPECT_GT(tried, 20u);
}

/// What models have, of numbers of a middling size: with other orders of sums
/// and the GPU's approximations near by.
static void compareNearly(const Sample &sample, const std::string &target) {
  const plan::KernelProgramT &program = sample.program;
  SCOPED_TRACE(sample.name + " for " + target);
  Device device(program, target);
  NearNumbers numbers(program);
  std::vector<std::vector<char>> found = numbers.given();
  std::vector<void *> at;
  for (std::vector<char> &bytes : found)
    at.push_back(bytes.data());
  ASSERT_NO_THROW(device.run(at));
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_EQ(numbers.compare(i, found[i]), std::nullopt);
}

TEST(KernelPtx, WhatModelsHave) {
  for (DType dtype : {DType::f32, DType::bf16})
    for (const char *target : {"sm_80", "sm_90/exact"})
      for (uint64_t columns : {72, 640})
        for (const Sample &sample : makeSamples(dtype, 3, columns)) {
          compareNearly(sample, target);
          if (HasFatalFailure())
            return;
        }
}

/// However large or small the numbers are.
TEST(KernelPtx, QuotientsOfAllNumbers) {
  const std::vector<float> numbers{1,      3e38f,  1e38f,   -0x1p127f,
                                   0x1p-1, 1e-39f, -1e-44f, 0x1p-126f};
  const uint64_t all = numbers.size() * numbers.size();
  ProgramBuilder builder({});
  uint32_t x = builder.load(DType::f32, all), y = builder.load(DType::f32, all);
  builder.store(DType::f32, builder.op(KernelOpKind::div, {x, y}));
  std::vector<float> left, right, found(all);
  for (float each : numbers)
    for (float other : numbers) {
      left.push_back(each);
      right.push_back(other);
    }
  Device(builder.program, "sm_80")
      .run({left.data(), right.data(), found.data()});
  for (uint64_t i = 0; i < all; ++i)
    EXPECT_EQ(found[i], left[i] / right[i]) << left[i] << " / " << right[i];
}

/// Rows of many vectors a thread, whose sums over rows lie in memory.
TEST(KernelPtx, LongRows) {
  for (const Sample &sample : makeSamples(DType::bf16, 2, 40'000))
    if (sample.name == "RMSNorm backward" || sample.name == "cross-entropy")
      compareNearly(sample, "sm_90");
}

static std::string findAssembler() {
  for (const char *path :
       {"/usr/local/cuda/bin/ptxas", "/usr/bin/ptxas", "/opt/cuda/bin/ptxas"})
    if (std::filesystem::exists(path))
      return path;
  return "";
}

/// The root of a long row's sum, beside as many others as a step has norms.
static Sample makeNorms() {
  ProgramBuilder builder({1});
  std::vector<uint32_t> norms{builder.op(
      KernelOpKind::sqrt, {builder.op(KernelOpKind::sum_columns,
                                      {builder.load(DType::f32, 7000)})})};
  while (norms.size() < 150)
    norms.push_back(builder.load(DType::f32, 1));
  uint32_t all = builder.op(KernelOpKind::cat, norms);
  builder.store(DType::f32, builder.op(KernelOpKind::mul, {all, all}));
  return {"norms", std::move(builder.program)};
}

TEST(KernelPtx, AssemblerTakesItWithoutSpills) {
  std::string assembler = findAssembler();
  if (assembler.empty())
    GTEST_SKIP() << "needs ptxas";
  std::string name = testing::TempDir() + "kernel-" + std::to_string(getpid());
  std::vector<Sample> samples = makeSamples(DType::bf16, 512, 4096);
  samples.push_back(makeNorms());
  for (const char *target : {"sm_80", "sm_90", "sm_100"})
    for (const Sample &sample : samples) {
      if (target != std::string_view("sm_90") && sample.name != "RMSNorm")
        continue;
      SCOPED_TRACE(sample.name + " for " + target);
      std::ofstream(name + ".ptx")
          << makeCode(serialize(sample.program), target);
      std::string command = assembler + " -v -arch=" + target + " " + name +
                            ".ptx -o " + name + ".cubin > " + name +
                            ".log 2>&1";
      EXPECT_EQ(std::system(command.c_str()), 0);
      std::ifstream log(name + ".log");
      std::string said(std::istreambuf_iterator<char>(log), {});
      EXPECT_NE(said.find("0 bytes spill stores"), std::string::npos) << said;
      EXPECT_EQ(std::regex_search(said, std::regex("[1-9]\\d* bytes spill")),
                false)
          << said;
    }
  for (const char *end : {".ptx", ".cubin", ".log"})
    std::filesystem::remove(name + end);
}

TEST(KernelPtx, LaunchesAreReadAsTheyWereWritten) {
  std::vector<PtxLaunch> launches{{"kernel", 256, 7, 264}, {"sum_3", 64, 1, 0}};
  EXPECT_EQ(readLaunches(toText(launches) + "\n.version 8.0\n"), launches);
  EXPECT_EQ(readLaunches(".version 8.0\n"), std::nullopt);
  EXPECT_EQ(readLaunches("// launch kernel 256\n"), std::nullopt);
}
