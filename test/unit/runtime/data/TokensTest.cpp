//===- TokensTest.cpp - Windows of token files ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/Tokens.h"
#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/data/DataFiles.h"

#include <gmock/gmock.h>

#include <fstream>

using namespace fsdp;
using namespace fsdp::test;
using plan::DType;
using testing::ElementsAre;

namespace {

class TokensTest : public testing::Test {
protected:
  void add(const std::string &name, size_t count, uint16_t first) {
    writeFile(folder.path() + "/" + name,
              toBytes(makeTokens<uint16_t>(count, first)));
  }

  plan::DataT data(bool hasTargets = true) {
    plan::DataT data;
    data.files = {folder.path() + "/*.bin"};
    data.inputs = {"x"};
    if (hasTargets)
      data.targets = {"y"};
    return data;
  }

  static plan::InputT input(const std::string &name, int64_t length = 4) {
    plan::InputT input;
    input.name = name;
    input.dtype = DType::i64;
    input.shape = {2, length};
    return input;
  }

  static std::vector<int64_t> read(const RowReader &reader, uint64_t first,
                                   uint64_t count, uint64_t length = 4) {
    std::vector<int64_t> tokens(count * length);
    reader.read(first, count, reinterpret_cast<std::byte *>(tokens.data()));
    return tokens;
  }

  TemporaryFolder folder;
};

TEST_F(TokensTest, TargetsAreOneTokenLater) {
  add("a.bin", 10, 100);
  Tokens tokens(data());
  auto x = tokens.open(input("x")), y = tokens.open(input("y"));
  ASSERT_EQ(x->rows(), 2u);
  ASSERT_EQ(y->rows(), 2u);
  EXPECT_THAT(read(*x, 0, 2),
              ElementsAre(100, 101, 102, 103, 104, 105, 106, 107));
  EXPECT_THAT(read(*y, 1, 1), ElementsAre(105, 106, 107, 108));
  EXPECT_EQ(tokens.open(input("z")), nullptr);
}

TEST_F(TokensTest, AWindowNeedsItsTargets) {
  add("a.bin", 8, 0);
  EXPECT_EQ(Tokens(data()).open(input("x"))->rows(), 1u);
  EXPECT_EQ(Tokens(data(false)).open(input("x"))->rows(), 2u);
  add("a.bin", 9, 0);
  EXPECT_EQ(Tokens(data()).open(input("x"))->rows(), 2u);
}

TEST_F(TokensTest, WindowsDoNotCrossFiles) {
  add("c.bin", 9, 300);
  add("a.bin", 6, 100);
  add("b.bin", 3, 200); // too short for any
  Tokens tokens(data());
  auto x = tokens.open(input("x"));
  ASSERT_EQ(x->rows(), 3u);
  EXPECT_THAT(read(*x, 0, 3), ElementsAre(100, 101, 102, 103, 300, 301, 302,
                                          303, 304, 305, 306, 307));
  EXPECT_THAT(read(*x, 1, 1), ElementsAre(300, 301, 302, 303));
}

TEST_F(TokensTest, EachFileIsReadOnce) {
  add("a.bin", 9, 0);
  plan::DataT twice = data();
  twice.files.push_back(folder.path() + "/a.bin");
  EXPECT_EQ(Tokens(twice).open(input("x"))->rows(), 2u);
}

TEST_F(TokensTest, ErrorsSayWhatIsMissing) {
  expectError(ErrorId::FileNotReadable, "no data file matches",
              [&] { Tokens tokens(data()); });
  add("a.bin", 4, 0);
  expectError(ErrorId::DataShape,
              "holds the 5 tokens that a row of 'x' takes with its targets; "
              "the longest holds 4",
              [&] { Tokens(data()).open(input("x")); });
  plan::InputT floats = input("x");
  floats.dtype = DType::f32;
  expectError(ErrorId::DataType, "expected i64 or i32",
              [&] { Tokens(data()).open(floats); });
  plan::InputT flat = input("x");
  flat.shape = {4};
  expectError(ErrorId::DataShape, "expected rows of tokens",
              [&] { Tokens(data()).open(flat); });
}

uint64_t residentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:"))
      return std::stoull(line.substr(6)) * 1024;
  return 0;
}

/// A file of 16 GiB, which is all hole: reading some of it takes memory for
/// what is read alone.
TEST_F(TokensTest, FilesMayBeLargerThanMemory) {
  add("a.bin", 1, 0);
  constexpr uint64_t kBytes = uint64_t{16} << 30;
  std::filesystem::resize_file(folder.path() + "/a.bin", kBytes);
  Tokens tokens(data());
  auto x = tokens.open(input("x", 1024));
  ASSERT_EQ(x->rows(), (kBytes / 2 - 1) / 1024);
  uint64_t before = residentBytes();
  for (uint64_t i = 0; i < 64; ++i)
    EXPECT_EQ(read(*x, i * (x->rows() / 64), 1, 1024)[5], 0);
  EXPECT_GT(before, 0u);
  EXPECT_LT(residentBytes(), before + (uint64_t{32} << 20));
}

} // namespace
