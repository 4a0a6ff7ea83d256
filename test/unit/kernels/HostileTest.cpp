//===- HostileTest.cpp - Code stays within its operands -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// FSDP_KERNEL_MUTATIONS in the environment: how many changed programs are
// tried.
//
//===----------------------------------------------------------------------===//

#include "kernels/CodeImage.h"
#include "kernels/CodeLibrary.h"
#include "kernels/CodeSize.h"
#include "kernels/Interpreter.h"
#include "plan/DType.h"
#include "support/Error.h"
#include "test/unit/kernels/GuardedMemory.h"
#include "test/unit/kernels/Programs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>
#include <optional>

using namespace fsdp;
using plan::DType;

/// What programs say in so many bytes; none: they say nothing.
static std::optional<plan::KernelProgramT> read(std::string_view bytes) {
  std::vector<uint64_t> aligned((bytes.size() + 7) / 8);
  bytes.copy(reinterpret_cast<char *>(aligned.data()), bytes.size());
  auto *data = reinterpret_cast<const uint8_t *>(aligned.data());
  flatbuffers::Verifier verifier(data, bytes.size());
  if (!verifier.VerifyBuffer<plan::KernelProgram>(nullptr))
    return std::nullopt;
  plan::KernelProgramT program;
  flatbuffers::GetRoot<plan::KernelProgram>(data)->UnPackTo(&program);
  return program;
}

/// Something that a person who means harm might write in place of `value`.
static int64_t otherThan(int64_t value, std::mt19937_64 &random) {
  auto bits = uint64_t(value); // wraps around
  const int64_t others[] = {int64_t(bits + 1),
                            int64_t(bits - 1),
                            int64_t(bits * 2),
                            int64_t(-bits),
                            0,
                            1,
                            64,
                            int64_t{1} << 31,
                            int64_t{1} << 46,
                            INT64_MAX,
                            INT64_MIN,
                            int64_t(random() % 70)};
  return others[random() % std::size(others)];
}

/// Changes one thing that the program says.
static void change(plan::KernelProgramT &program, std::mt19937_64 &random) {
  auto &operand = *program.operands[random() % program.operands.size()];
  auto &op = *program.ops[random() % program.ops.size()];
  auto changeOne = [&](auto &list) {
    if (!list.empty()) {
      auto &one = list[random() % list.size()];
      one = std::remove_reference_t<decltype(one)>(
          otherThan(int64_t(one), random));
    }
  };
  switch (random() % 9) {
  case 0:
    return changeOne(program.rows);
  case 1:
    return changeOne(operand.row_strides);
  case 2:
    operand.column_stride = otherThan(operand.column_stride, random);
    return;
  case 3:
    operand.columns = uint64_t(otherThan(int64_t(operand.columns), random));
    return;
  case 4:
    operand.written = int32_t(otherThan(operand.written, random));
    return;
  case 5:
    op.kind = uint8_t(random() % (getKernelOps().size() + 1));
    return;
  case 6:
    return changeOne(op.args);
  case 7:
    return changeOne(op.integers);
  default:
    operand.dtype = plan::DType(random() % 16);
  }
}

/// Runs a sound program in guarded memory; false: it is too large to try.
static bool runGuarded(const plan::KernelProgramT &program, bool atEnd) {
  if (rowsOf(program) > 2000 || columnsOf(program) > 5000 ||
      uint64_t(rowsOf(program)) * columnsOf(program) > 200'000)
    return false;
  std::list<GuardedMemory> memory;
  std::vector<void *> addresses;
  for (size_t i = 0; i < program.operands.size(); ++i) {
    uint64_t bytes =
        extentOf(program, i) * (takesRowSum(program, i)
                                    ? sizeof(float)
                                    : dtypeBytes(program.operands[i]->dtype));
    if (bytes > 16 << 20)
      return false;
    addresses.push_back(memory.emplace_back(bytes, atEnd).data());
  }
  int64_t range =
      isFlat(program) ? int64_t(columnsOf(program)) : rowsOf(program);
  interpret(program, addresses, 0, range);
  try {
    CodeImage image(makeCode(serialize(program), targetOfProcessor()));
    image.run(addresses.data(), 0, range);
  } catch (const Error &refused) {
    EXPECT_NE(std::string(refused.what()).find("there is code for"),
              std::string::npos)
        << refused.what();
  }
  return true;
}

TEST(KernelHostile, ChangedProgramsAreRefusedOrStayWithinTheirOperands) {
  const char *wanted = std::getenv("FSDP_KERNEL_MUTATIONS");
  uint64_t count = wanted ? std::strtoull(wanted, nullptr, 10) : 3000;
  uint64_t ran = 0, refused = 0;
  for (uint64_t seed = 0; seed < count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    plan::KernelProgramT program = makeRandomProgram(random);
    std::string text;
    for (uint64_t changes = 1 + random() % 3; changes > 0; --changes)
      change(program, random);
    if (random() % 2) { // and some bytes of what is written of it
      std::string bytes = serialize(program);
      for (uint64_t changes = random() % 4; changes > 0; --changes)
        bytes[random() % bytes.size()] = char(random());
      std::optional<plan::KernelProgramT> other = read(bytes);
      if (!other) {
        ++refused;
        continue;
      }
      program = std::move(*other);
    }
    if (checkKernel(program)) {
      ++refused;
      continue;
    }
    // Few of what is left, since each takes milliseconds.
    if (random() % 4 == 0)
      ran += runGuarded(program, random() % 2);
  }
  EXPECT_GT(refused, count / 4);
  EXPECT_GT(ran, count / 50);
}

TEST(KernelHostile, TheLibraryRefusesBytesThatAreNoProgram) {
  for (std::string bytes : {"", "x", "no program at all, but some text"})
    EXPECT_THROW(makeCode(bytes, "x86-64-v3"), Error) << bytes;
  std::mt19937_64 random(1);
  std::string sound = serialize(makeRandomProgram(random));
  EXPECT_THROW(makeCode(sound.substr(0, sound.size() / 2), "x86-64-v3"), Error);
  EXPECT_THROW(makeCode(sound, "pentium"), Error);
}

/// Programs whose code would grow without end.
TEST(KernelHostile, LongProgramsAreRefused) {
  ProgramBuilder pieces({}), wide({});
  uint32_t x = pieces.load(plan::DType::f32, 64);
  for (int i = 0; i < 12; ++i)
    x = pieces.op(KernelOpKind::cat, {x, x});
  pieces.store(plan::DType::f32, x);
  ASSERT_EQ(checkKernel(pieces.program), std::nullopt);
  EXPECT_THROW(makeCode(serialize(pieces.program), "x86-64-v3"), Error);
  // Differences of differences: each takes its argument at two columns.
  uint32_t y = wide.load(plan::DType::f32, 3000);
  for (int64_t left = 2999; left > 2000; --left) {
    uint32_t low = wide.op(KernelOpKind::slice, {y}, {0, left});
    uint32_t high = wide.op(KernelOpKind::slice, {y}, {1, left});
    y = wide.op(KernelOpKind::sub, {high, low});
  }
  wide.store(plan::DType::f32, y);
  ASSERT_EQ(checkKernel(wide.program), std::nullopt);
  EXPECT_THROW(makeCode(serialize(wide.program), "x86-64-v3"), Error);
  ProgramBuilder deep({});
  uint32_t z = deep.load(plan::DType::f32, 100);
  for (int i = 0; i < 1000; ++i)
    z = deep.op(KernelOpKind::tanh, {z});
  deep.store(plan::DType::f32, z);
  for (const char *target : {"x86-64-v3", "x86-64-v4", "aarch64", "sm_80"})
    EXPECT_THROW(makeCode(serialize(deep.program), target), Error) << target;
}

/// What compilers make kernels of: code is there on every target.
TEST(KernelCode, IsThereForAllThatIsShortEnough) {
  auto expectCode = [](const plan::KernelProgramT &program) {
    ASSERT_EQ(checkKernel(program), std::nullopt);
    std::optional<uint64_t> size = codeSizeOf(program);
    ASSERT_TRUE(size);
    EXPECT_LE(*size, kMostCode);
    EXPECT_GT(*size, kMostCode * 8 / 10);
    for (const char *target : {"x86-64-v3", "x86-64-v4", "aarch64", "sm_80"})
      EXPECT_NO_THROW(makeCode(serialize(program), target)) << target;
  };
  for (DType dtype : {DType::f32, DType::f16}) {
    ProgramBuilder deep({64}), wide({64}), pieces({64});
    uint32_t x = deep.load(dtype, 1000);
    for (int i = 0; i < 68; ++i)
      x = deep.op(KernelOpKind::tanh, {x});
    deep.store(dtype, deep.op(KernelOpKind::round_f16, {x}));
    expectCode(deep.program);
    // Each sum goes through all that was computed before once more.
    uint32_t y = wide.load(dtype, 1000);
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 7; ++j)
        y = wide.op(KernelOpKind::exp, {y});
      y = wide.op(KernelOpKind::mul,
                  {y, wide.op(KernelOpKind::sum_columns, {y})});
    }
    wide.store(dtype, wide.op(KernelOpKind::round_f16, {y}));
    expectCode(wide.program);
    std::vector<uint32_t> parts;
    uint32_t z = pieces.load(dtype, 40);
    for (int i = 0; i < 60; ++i)
      parts.push_back(pieces.op(KernelOpKind::neg, {z}));
    uint32_t all = pieces.op(KernelOpKind::cat, parts);
    pieces.store(dtype, pieces.op(KernelOpKind::round_f16, {all}));
    std::optional<uint64_t> size = codeSizeOf(pieces.program);
    ASSERT_TRUE(size);
    if (*size <= kMostCode)
      for (const char *target : {"x86-64-v3", "sm_80"})
        EXPECT_NO_THROW(makeCode(serialize(pieces.program), target)) << target;
  }
}
