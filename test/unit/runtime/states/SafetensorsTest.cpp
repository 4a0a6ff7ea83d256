//===- SafetensorsTest.cpp - Whole and damaged files ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/weights/Safetensors.h"

#include "support/Error.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace fsdp;
using namespace fsdp::test;

namespace {

class SafetensorsTest : public testing::Test {
protected:
  std::string path() const { return folder.path() + "/x.safetensors"; }

  std::string whole() {
    writeTensors(path(), {{"a", {2, 3}, {1, 2, 3, 4, 5, 6}},
                          {"empty", {0, 4}, {}},
                          {"b", {}, {7}}});
    std::ifstream stream(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  void put(const std::string &bytes) {
    std::ofstream(path(), std::ios::binary) << bytes;
  }

  void expectRefused(const std::string &bytes) {
    put(bytes);
    try {
      SafetensorsFile file(path());
      FAIL() << "was read";
    } catch (const Error &error) {
      EXPECT_EQ(error.id(), ErrorId::DataFileInvalid) << error.what();
    }
  }

  static std::string withHeader(const std::string &header,
                                const std::string &data) {
    std::string bytes;
    for (size_t i = 0, n = header.size(); i < 8; ++i, n >>= 8)
      bytes += static_cast<char>(n & 255);
    return bytes + header + data;
  }

  TemporaryFolder folder;
};

TEST_F(SafetensorsTest, AlignsEachTensorToItsElements) {
  std::vector<TensorToStore> tensors = {{"flags", plan::DType::bool_, {3}},
                                        {"half", plan::DType::bf16, {5}},
                                        {"double", plan::DType::f64, {2}},
                                        {"float", plan::DType::f32, {1}}};
  uint64_t begin = layoutSafetensors(tensors).size();
  EXPECT_EQ(begin % 8, 0u);
  // In the order of their elements' sizes; the list keeps its own.
  EXPECT_EQ(tensors[2].offset, begin);
  EXPECT_EQ(tensors[3].offset, begin + 16);
  EXPECT_EQ(tensors[1].offset, begin + 20);
  EXPECT_EQ(tensors[0].offset, begin + 30);
}

TEST_F(SafetensorsTest, ReadsWhatWasWritten) {
  whole();
  SafetensorsFile file(path());
  ASSERT_EQ(file.tensors().size(), 3u);
  const StoredTensor &a = file.tensors().at("a");
  EXPECT_EQ(a.dtype, plan::DType::f32);
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 3}));
  float values[6];
  std::memcpy(values, a.data, sizeof(values));
  EXPECT_EQ(values[5], 6);
  EXPECT_EQ(file.tensors().at("empty").shape, (std::vector<int64_t>{0, 4}));
  float b;
  std::memcpy(&b, file.tensors().at("b").data, sizeof(b));
  EXPECT_EQ(b, 7);
}

TEST_F(SafetensorsTest, EveryCutIsRefused) {
  std::string bytes = whole();
  for (size_t length = 0; length < bytes.size(); ++length)
    expectRefused(bytes.substr(0, length));
}

TEST_F(SafetensorsTest, BadHeadersAreRefused) {
  expectRefused(withHeader("[]", ""));
  expectRefused(withHeader("{\"a\": 1}", ""));
  expectRefused(withHeader(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"));
  expectRefused(withHeader(
      R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234"));
  expectRefused(withHeader(
      R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", "1234"));
  expectRefused(withHeader(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234"));
  expectRefused(
      withHeader(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],)"
                 R"("data_offsets":[0,4]}})",
                 "1234"));
}

TEST_F(SafetensorsTest, OverlapsAreRefused) {
  expectRefused(
      withHeader(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                 R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                 "12345678"));
}

TEST_F(SafetensorsTest, TwoTensorsOfOneNameAreRefused) {
  expectRefused(
      withHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                 R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                 "12345678"));
}

TEST_F(SafetensorsTest, OverflowingOffsetsAreRefused) {
  expectRefused(withHeader(
      R"({"a":{"dtype":"F32","shape":[1],)"
      R"("data_offsets":[18446744073709551612,18446744073709551616]}})",
      "1234"));
  expectRefused(withHeader(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", "1234"));
}

TEST_F(SafetensorsTest, NumbersThatAreNoIntegersAreRefused) {
  for (const char *numbers :
       {R"("shape":[1.5],"data_offsets":[0,4])",
        R"("shape":[1],"data_offsets":[0.0,4.0])",
        R"("shape":[1],"data_offsets":[0,1e30])",
        R"("shape":[9223372036854775808],"data_offsets":[0,4])"})
    expectRefused(withHeader(
        std::string(R"({"a":{"dtype":"F32",)") + numbers + "}}", "1234"));
}

TEST_F(SafetensorsTest, EveryFlippedByteIsReadOrRefused) {
  std::string bytes = whole();
  for (size_t at = 0; at < bytes.size(); ++at)
    for (char bit : {'\x01', '\x20', '\x80'}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ bit);
      put(damaged);
      try {
        SafetensorsFile file(path());
        for (const auto &[name, tensor] : file.tensors())
          EXPECT_LE(tensor.offset + tensor.bytes, damaged.size());
      } catch (const Error &error) {
        EXPECT_EQ(error.id(), ErrorId::DataFileInvalid) << error.what();
      }
    }
}

TEST_F(SafetensorsTest, HashSeesTheHeaderAlone) {
  std::string bytes = whole();
  std::string hash = SafetensorsFile(path()).headerHash();
  bytes.back() ^= 1;
  put(bytes);
  EXPECT_EQ(SafetensorsFile(path()).headerHash(), hash);
  writeTensors(path(), {{"other", {2, 3}, {1, 2, 3, 4, 5, 6}}});
  EXPECT_NE(SafetensorsFile(path()).headerHash(), hash);
}

TEST_F(SafetensorsTest, MetadataIsNoTensor) {
  put(withHeader(R"({"__metadata__":{"format":"pt"}})", ""));
  EXPECT_TRUE(SafetensorsFile(path()).tensors().empty());
}

TEST_F(SafetensorsTest, AFolderIsRefused) {
  try {
    SafetensorsFile file(folder.path());
    FAIL() << "was read";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::NotARegularFile);
  }
}

} // namespace
