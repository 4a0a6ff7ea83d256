//===- CodeTest.cpp - Code computes what the interpreter does -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// FSDP_KERNEL_PROGRAMS in the environment: how many random programs are tried.
//
//===----------------------------------------------------------------------===//

#include "kernels/CodeImage.h"
#include "kernels/CodeLibrary.h"
#include "kernels/Interpreter.h"
#include "test/unit/kernels/Operands.h"
#include "test/unit/kernels/Programs.h"
#include "test/unit/kernels/Samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

using namespace fsdp;
using plan::DType;

static std::vector<std::string> targets() {
  std::vector<std::string> targets{"x86-64-v3"};
  if (targetOfProcessor() == "x86-64-v4")
    targets.push_back("x86-64-v4");
  return targetOfProcessor() == "aarch64" ? std::vector<std::string>{"aarch64"}
                                          : targets;
}

/// Numbers that [begin, end) are of.
static int64_t rangeOf(const plan::KernelProgramT &program) {
  return isFlat(program) ? int64_t(columnsOf(program)) : rowsOf(program);
}

/// Runs code in random pieces beside the interpreter.
static void compare(const plan::KernelProgramT &program, uint64_t seed) {
  ASSERT_EQ(checkKernel(program), std::nullopt) << toText(program);
  int64_t range = rangeOf(program);
  for (const std::string &target : targets()) {
    SCOPED_TRACE(target + ", seed " + std::to_string(seed) + "\n" +
                 toText(program));
    CodeImage image(makeCode(serialize(program), target));
    std::mt19937_64 random(seed);
    for (bool overlays : {false, true}) {
      Operands expected(program, random, overlays), found = expected;
      interpret(program, expected.addresses(), 0, range);
      int64_t most = 1 + int64_t(random() % 500);
      for (int64_t begin = 0; begin < range;) {
        int64_t end = std::min(range, begin + 1 + int64_t(random()) % most);
        end = std::max(end, begin);
        image.run(found.addresses().data(), begin, end);
        begin = end;
      }
      ASSERT_EQ(found.compare(expected), std::nullopt);
    }
  }
}

/// Stores a value as all that it may become.
static void storeAll(ProgramBuilder &builder, uint32_t op) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f8e4m3fn,
                      DType::f8e5m2, DType::i64, DType::i32, DType::i16,
                      DType::i8, DType::u8, DType::bool_}) {
    builder.store(dtype, op);
    if (checkKernel(builder.program)) // of another type
      builder.program.operands.pop_back();
  }
}

/// One operation of operands of any of the types that it takes.
static plan::KernelProgramT makeAlone(const KernelOpFacts &facts,
                                      uint64_t columns, KernelType any) {
  static constexpr DType kDtypes[] = {DType::f32, DType::i64, DType::bool_};
  ProgramBuilder builder({3});
  std::string arguments(facts.arguments);
  if (arguments == "*+")
    arguments = "***";
  std::vector<uint32_t> args;
  for (char letter : arguments)
    args.push_back(
        builder.load(letter == '*'   ? kDtypes[size_t(any)]
                     : letter == 'f' ? DType::f32
                     : letter == 'i' ? DType::i64
                                     : DType::bool_,
                     facts.kind == KernelOpKind::repeat ? 1 : columns));
  std::vector<int64_t> integers;
  if (facts.integers == "value" || facts.integers == "columns")
    integers = {int64_t(columns)};
  if (facts.integers == "first columns")
    integers = {int64_t(columns) / 3, int64_t(columns) - int64_t(columns) / 3};
  if (facts.kind == KernelOpKind::sum_rows)
    builder.storeSum(args[0]);
  else
    storeAll(builder, builder.op(facts.kind, args, integers, 0.1));
  return std::move(builder.program);
}

TEST(KernelCode, EachOperationAlone) {
  for (const KernelOpFacts &facts : getKernelOps())
    for (uint64_t columns : {1, 133})
      for (KernelType any :
           {KernelType::f32, KernelType::i64, KernelType::boolean}) {
        bool hasAny = facts.arguments.find('*') != std::string_view::npos;
        if (facts.kind == KernelOpKind::load ||
            (any != KernelType::f32 && !hasAny))
          continue;
        compare(makeAlone(facts, columns, any), columns);
        if (HasFatalFailure())
          return;
      }
}

TEST(KernelCode, EachElementType) {
  for (DType dtype :
       {DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::i16,
        DType::i8, DType::u8, DType::bool_})
    for (int64_t stride : {0, 1, 3}) {
      ProgramBuilder builder({4});
      storeAll(builder, builder.load(dtype, 90, {90 * stride}, stride));
      compare(builder.program, 1);
      if (HasFatalFailure())
        return;
    }
}

TEST(KernelCode, WhatModelsHave) {
  for (DType dtype : {DType::f32, DType::bf16})
    for (uint64_t columns : {40, 320})
      for (const Sample &sample : makeSamples(dtype, 7, columns)) {
        SCOPED_TRACE(sample.name);
        compare(sample.program, columns);
        if (HasFatalFailure())
          return;
      }
}

/// What is too long where loops are unrolled, and is not where they are not.
TEST(KernelCode, ManyPieces) {
  ProgramBuilder builder({3});
  std::vector<uint32_t> pieces;
  for (int64_t i = 0; i < 60; ++i) {
    uint32_t x = builder.load(DType::bf16, 90 + uint64_t(i));
    for (int64_t times = 0; times < 2; ++times)
      x = builder.op(KernelOpKind::exp, {builder.op(KernelOpKind::neg, {x})});
    pieces.push_back(x);
  }
  uint32_t all = builder.op(KernelOpKind::cat, pieces);
  uint32_t sum = builder.op(KernelOpKind::sum_columns, {all});
  builder.store(DType::bf16, builder.op(KernelOpKind::mul, {all, sum}));
  compare(builder.program, 1);
}

TEST(KernelCode, RandomPrograms) {
  const char *wanted = std::getenv("FSDP_KERNEL_PROGRAMS");
  uint64_t count = wanted ? std::strtoull(wanted, nullptr, 10) : 60;
  const char *first = std::getenv("FSDP_KERNEL_SEED");
  uint64_t begin = first ? std::strtoull(first, nullptr, 10) : 1;
  for (uint64_t seed = begin; seed < begin + count; ++seed) {
    std::mt19937_64 random(seed);
    plan::KernelProgramT program = makeRandomProgram(random);
    if (checkKernel(program)) // written elements may lie over one another
      continue;
    compare(program, seed);
    if (HasFatalFailure())
      return;
  }
}

/// What cannot be run here refers to nothing outside all the same.
TEST(KernelCode, BecomesImagesForEachProcessor) {
  for (uint64_t seed = 1; seed < 12; ++seed) {
    std::mt19937_64 random(seed);
    plan::KernelProgramT program = makeRandomProgram(random);
    if (checkKernel(program))
      continue;
    for (const char *target : {"x86-64-v3", "x86-64-v4", "aarch64"})
      EXPECT_FALSE(makeCode(serialize(program), target).empty());
  }
}
