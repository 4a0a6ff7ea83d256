//===- TokenFileTest.cpp - The formats of token files ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/TokenFile.h"
#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/data/DataFiles.h"

using namespace fsdp;
using namespace fsdp::test;
using plan::DType;
using plan::TokenFormat;

namespace {

class TokenFileTest : public testing::Test {
protected:
  std::string path() const { return folder.path() + "/tokens.bin"; }

  template <typename T>
  static std::vector<T> readAs(const TokenFile &file, uint64_t first,
                               uint64_t count, DType type) {
    std::vector<T> tokens(count);
    file.read(first, count, type, reinterpret_cast<std::byte *>(tokens.data()));
    return tokens;
  }

  /// Tokens 2 to 4 of a file that has ten from `first` on.
  void expectTen(TokenFormat format, int64_t first) {
    TokenFile file(path(), format, DType::u16);
    EXPECT_EQ(file.size(), 10u);
    EXPECT_EQ(readAs<int64_t>(file, 2, 3, DType::i64),
              (std::vector<int64_t>{first + 2, first + 3, first + 4}));
    EXPECT_EQ(readAs<int32_t>(file, 9, 1, DType::i32),
              std::vector<int32_t>{static_cast<int32_t>(first + 9)});
  }

  void refuse(const std::string &bytes, const std::string &text,
              TokenFormat format = TokenFormat::recognized) {
    writeFile(path(), bytes);
    expectError(ErrorId::DataFileInvalid, text,
                [&] { TokenFile(path(), format, DType::u16); });
  }

  TemporaryFolder folder;
};

TEST_F(TokenFileTest, ReadsRawNumbers) {
  // The highest bit is no sign.
  writeFile(path(), toBytes(makeTokens<uint16_t>(10, 65520)));
  expectTen(TokenFormat::recognized, 65520);
  expectTen(TokenFormat::raw, 65520);
}

TEST_F(TokenFileTest, ReadsRawNumbersOf32Bits) {
  writeFile(path(), toBytes(makeTokens<uint32_t>(10, 128000)));
  TokenFile file(path(), TokenFormat::raw, DType::u32);
  EXPECT_EQ(file.size(), 10u);
  EXPECT_EQ(readAs<int64_t>(file, 9, 1, DType::i64),
            std::vector<int64_t>{128009});
}

TEST_F(TokenFileTest, ReadsBothHeadersOfLlmC) {
  writeFile(path(), makeLlmC(20240520, 1, makeTokens<uint16_t>(10, 50000)));
  expectTen(TokenFormat::recognized, 50000);
  expectTen(TokenFormat::llm_c, 50000);
  writeFile(path(), makeLlmC(20240801, 7, makeTokens<uint32_t>(10, 128000)));
  expectTen(TokenFormat::recognized, 128000);
}

TEST_F(TokenFileTest, ReadsMegatronsSequencesAsOneStream) {
  std::string index = folder.path() + "/tokens.idx";
  writeFile(path(), toBytes(makeTokens<uint16_t>(10, 60000)));
  writeFile(index, makeMegatronIndex(8, 2, {3, 0, 7}));
  expectTen(TokenFormat::recognized, 60000);
  expectTen(TokenFormat::megatron, 60000);
  writeFile(path(), toBytes(makeTokens<int32_t>(10, 100000)));
  writeFile(index, makeMegatronIndex(4, 4, {10}));
  expectTen(TokenFormat::recognized, 100000);
  writeFile(path(), toBytes(makeTokens<uint8_t>(10, 200)));
  writeFile(index, makeMegatronIndex(1, 1, {4, 6}));
  expectTen(TokenFormat::recognized, 200);
}

TEST_F(TokenFileTest, RefusesWhatWasCutOff) {
  refuse("", "is empty");
  refuse("abc", "3 bytes of tokens, which are no u16 numbers");
  std::string whole = makeLlmC(20240520, 1, makeTokens<uint16_t>(10));
  refuse(whole.substr(0, 100), "ends within its header");
  refuse(whole.substr(0, whole.size() - 2), "states 10 tokens and holds 9");
  refuse(whole.substr(0, whole.size() - 1), "which are no u16 numbers");
}

TEST_F(TokenFileTest, RefusesWhatIsOfAnotherFormat) {
  refuse(toBytes(makeTokens<uint16_t>(600)), "does not begin as llm.c's do",
         TokenFormat::llm_c);
  refuse(makeLlmC(20240520, 2, makeTokens<uint16_t>(4)), "found the numbers",
         TokenFormat::llm_c);
  refuse(makeMegatronIndex(8, 2, {1}), "is an index");
  writeFile(path(), toBytes(makeTokens<uint16_t>(4)));
  expectError(ErrorId::FileNotReadable, "tokens.idx",
              [&] { TokenFile(path(), TokenFormat::megatron, DType::u16); });
}

TEST_F(TokenFileTest, RefusesDamagedIndices) {
  std::string tokens = toBytes(makeTokens<uint16_t>(10));
  std::string index = folder.path() + "/tokens.idx";
  auto refuseIndex = [&](const std::string &bytes, const std::string &text) {
    writeFile(index, bytes);
    refuse(tokens, text);
  };
  std::string whole = makeMegatronIndex(8, 2, {4, 6});
  refuseIndex("MMIDIDX", "it has 7 bytes");
  refuseIndex(std::string(100, 'x'), "does not begin with MMIDIDX");
  refuseIndex(whole.substr(0, whole.size() - 1), "which are not 2 sequences");
  std::string version = whole;
  version[9] = 2;
  refuseIndex(version, "version 2, expected 1");
  refuseIndex(makeMegatronIndex(7, 4, {4, 6}), "the type 7");
  // The number of sequences times 12 overflows.
  std::string huge = whole;
  huge.replace(18, 8, toBytes<uint64_t>({~uint64_t{0} / 12 + 2}));
  refuseIndex(huge, "which are not");
  // Lengths are at 34, offsets behind them.
  std::string gap = whole;
  gap.replace(34, 4, toBytes<int32_t>({3}));
  refuseIndex(gap, "sequence 1 lies at byte 8, expected 6");
  refuseIndex(makeMegatronIndex(8, 2, {4, 5}), "holds 10 tokens");
}

TEST_F(TokenFileTest, NoticesThatTheFileWasCutOffLater) {
  writeFile(path(), toBytes(makeTokens<uint16_t>(5000)));
  TokenFile file(path(), TokenFormat::raw, DType::u16);
  std::filesystem::resize_file(path(), 100);
  expectError(ErrorId::FileNotReadable, "had 10000 when it was opened",
              [&] { readAs<int64_t>(file, 4000, 10, DType::i64); });
}

} // namespace
