//===- CodedWeightsTest.cpp - Weights that bitsandbytes has coded ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/weights/CodedWeights.h"

#include "support/BlockNumbers.h"
#include "support/Error.h"
#include "support/QuantizedBlocks.h"
#include "support/ReadOnlyFile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <unistd.h>

using namespace fsdp;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

template <typename T>
std::string bytesOf(std::span<const T> values) {
  return {reinterpret_cast<const char *>(values.data()), values.size_bytes()};
}

/// A file of tensors, by their names.
class CodedFile {
public:
  CodedFile()
      : folder(fs::temp_directory_path() /
               ("coded-" + std::to_string(getpid()))) {
    fs::create_directories(folder);
  }
  ~CodedFile() { fs::remove_all(folder); }

  void set(const std::string &name, plan::DType dtype,
           std::vector<int64_t> shape, std::string bytes) {
    all[name] = {{name, dtype, std::move(shape)}, std::move(bytes)};
  }
  void setBytes(const std::string &name, const std::string &bytes) {
    set(name, plan::DType::u8, {static_cast<int64_t>(bytes.size())}, bytes);
  }
  void setFloats(const std::string &name, std::span<const float> values) {
    set(name, plan::DType::f32, {static_cast<int64_t>(values.size())},
        bytesOf(values));
  }
  void clear() { all.clear(); }
  void remove(const std::string &name) { all.erase(name); }

  /// What the file has of a tensor, and of all others.
  std::optional<CodedWeight> find(const std::string &name) {
    std::vector<TensorToStore> tensors;
    for (const auto &[each, tensor] : all)
      tensors.push_back(tensor.first);
    std::string head = layoutSafetensors(tensors);
    std::string data = head;
    for (const TensorToStore &tensor : tensors) {
      data.resize(std::max(data.size(),
                           tensor.offset + all[tensor.name].second.size()));
      data.replace(tensor.offset, all[tensor.name].second.size(),
                   all[tensor.name].second);
    }
    std::string path = (folder / "model.safetensors").string();
    std::ofstream(path, std::ios::binary) << data;
    WeightFiles weights({path});
    files.clear();
    files.push_back(std::make_unique<ReadOnlyFile>(path, "the file"));
    return weights.findCoded(name);
  }
  std::string refusal(const std::string &name) {
    try {
      (void)find(name);
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  }

  CodedWeight::Files files;

private:
  fs::path folder;
  std::map<std::string, std::pair<TensorToStore, std::string>> all;
};

class CodedWeights : public testing::Test {
protected:
  static constexpr int64_t kRows = 130, kColumns = 133;
  static constexpr int64_t kCount = kRows * kColumns; // 17290, odd at 2

  /// Codes and scales that no quantisation gives, in all tensors of 4 bits.
  void write(const BlockForm &form) {
    int64_t blocks = form.countBlocks(kCount);
    std::string codes(static_cast<size_t>((kCount + 1) / 2), '\0');
    for (size_t i = 0; i < codes.size(); ++i)
      codes[i] = static_cast<char>(i * 29 + i / 64);
    file.set("fc.weight", plan::DType::u8,
             {static_cast<int64_t>(codes.size()), 1}, codes);
    file.setFloats("fc.weight.quant_map", getNumbers(form.kind));
    std::string state = R"({"quant_type": ")" +
                        std::string(getName(form.kind)) +
                        R"(", "blocksize": )" + std::to_string(form.elements) +
                        R"(, "dtype": "bfloat16", "shape": [130, 133])";
    if (form.hasCodedScales) {
      std::string scales(static_cast<size_t>(blocks), '\0');
      for (size_t i = 0; i < scales.size(); ++i)
        scales[i] = static_cast<char>(i * 7 + 3);
      file.setBytes("fc.weight.absmax", scales);
      std::vector<float> shared;
      for (int64_t i = 0; i < (blocks + 255) / 256; ++i)
        shared.push_back(0.5f + static_cast<float>(i));
      file.setFloats("fc.weight.nested_absmax", shared);
      file.setFloats("fc.weight.nested_quant_map", kScaleNumbers);
      state += R"(, "nested_blocksize": 256, "nested_dtype": "float32", )"
               R"("nested_offset": 2.324110507965088)";
    } else {
      std::vector<float> scales;
      for (int64_t i = 0; i < blocks; ++i)
        scales.push_back(0.25f + static_cast<float>(i) / 64);
      file.setFloats("fc.weight.absmax", scales);
    }
    file.setBytes("fc.weight.quant_state.bitsandbytes__" +
                      std::string(getName(form.kind)),
                  state + "}");
  }

  std::vector<float> readNumbers(const CodedWeight &weight, uint64_t first,
                                 uint64_t count) {
    std::vector<float> numbers(count);
    weight.readNumbers(file.files, first, count, numbers.data());
    return numbers;
  }

  CodedFile file;
};

TEST_F(CodedWeights, RowsAndNumbersAreTheSame) {
  for (auto kind : {BlockKind::Nf4, BlockKind::Fp4})
    for (int64_t size : {32, 64, 4096})
      for (bool isDouble : {false, true}) {
        BlockForm form{kind, size, isDouble};
        SCOPED_TRACE(getName(form));
        file.clear();
        write(form);
        auto weight = file.find("fc.weight");
        ASSERT_TRUE(weight);
        EXPECT_EQ(weight->describe(), getName(form));
        EXPECT_EQ(weight->dtype(), plan::DType::u8);
        EXPECT_TRUE(weight->isOf(form));
        EXPECT_FALSE(weight->isOf({kind, size, !isDouble}));
        EXPECT_FALSE(weight->isOf({BlockKind::Int8, size, isDouble}));
        int64_t rows = form.countRows(kCount);
        std::vector<uint8_t> bytes(
            static_cast<size_t>(rows * form.getRowBytes()));
        // Each by itself, as a rank reads its own.
        for (int64_t row = 0; row < rows; ++row)
          weight->readRows(
              file.files, row, 1,
              &bytes[static_cast<size_t>(row * form.getRowBytes())]);
        int64_t blocks = form.countBlocks(kCount);
        std::vector<float> expected(
            static_cast<size_t>(blocks * form.elements));
        dequantizeBlocks(form, bytes.data(), 0, blocks, expected.data());
        std::vector<float> all = readNumbers(*weight, 0, kCount);
        for (size_t i = 0; i < all.size(); ++i)
          ASSERT_EQ(std::bit_cast<uint32_t>(all[i]),
                    std::bit_cast<uint32_t>(expected[i]))
              << i;
        for (uint64_t first : {uint64_t(1), uint64_t(63), uint64_t(9001)}) {
          std::vector<float> some = readNumbers(*weight, first, 777);
          EXPECT_TRUE(std::equal(some.begin(), some.end(),
                                 all.begin() + int64_t(first)));
        }
        // Behind the tensor there are zeros.
        for (size_t i = kCount + 1; i < expected.size(); ++i)
          EXPECT_EQ(expected[i], 0) << i;
      }
}

TEST_F(CodedWeights, AreTheNumbersOfBitsandbytes) {
  // The first element has the upper half of its byte.
  file.set("a.weight", plan::DType::u8, {2, 1}, std::string("\x07\xf8", 2));
  file.setFloats("a.weight.quant_map", kNf4Numbers);
  file.setFloats("a.weight.absmax", std::vector<float>{2.0f});
  file.setBytes("a.weight.quant_state.bitsandbytes__nf4",
                R"({"quant_type": "nf4", "blocksize": 64, "dtype": "float32", )"
                R"("shape": [4]})");
  auto weight = file.find("a.weight");
  ASSERT_TRUE(weight);
  EXPECT_THAT(readNumbers(*weight, 0, 4),
              ElementsAre(-2, 0, 2, 2 * 0.07958029955625534f));
}

TEST_F(CodedWeights, WiderElementsHoldTheSameBytes) {
  write({});
  std::string codes(static_cast<size_t>((kCount + 3) / 4 * 2), '\x07');
  file.set("fc.weight", plan::DType::bf16,
           {static_cast<int64_t>(codes.size() / 2), 1}, codes);
  auto weight = file.find("fc.weight");
  ASSERT_TRUE(weight);
  EXPECT_TRUE(weight->isOf({}));
  EXPECT_EQ(readNumbers(*weight, 0, 1)[0], -0.25f);
}

TEST_F(CodedWeights, OtherNumbersAreReadAsTheyAre) {
  write({BlockKind::Nf4, 64, true});
  std::vector<float> numbers(kScaleNumbers.begin(), kScaleNumbers.end());
  // Another machine's last bit is no other table.
  numbers[20] = std::nextafter(numbers[20], 0.0f);
  file.setFloats("fc.weight.nested_quant_map", numbers);
  EXPECT_TRUE(file.find("fc.weight")->isOf({BlockKind::Nf4, 64, true}));
  numbers[20] *= 1.01f;
  file.setFloats("fc.weight.nested_quant_map", numbers);
  auto weight = file.find("fc.weight");
  EXPECT_FALSE(weight->isOf({BlockKind::Nf4, 64, true}));
  std::vector<float> of16(kNf4Numbers.begin(), kNf4Numbers.end());
  of16[0] = -2;
  write({});
  file.setFloats("fc.weight.quant_map", of16);
  weight = file.find("fc.weight");
  EXPECT_FALSE(weight->isOf({}));
  EXPECT_EQ(readNumbers(*weight, 0, 1)[0], -0.5f);
}

TEST_F(CodedWeights, RowsOf8Bits) {
  file.set("fc.weight", plan::DType::i8, {2, 3},
           std::string("\x7f\x81\x00\x01\x02\x40", 6));
  file.setFloats("fc.SCB", std::vector<float>{2.0f, 0.5f});
  file.setBytes("fc.weight_format", std::string(1, '\0'));
  auto weight = file.find("fc.weight");
  ASSERT_TRUE(weight);
  EXPECT_EQ(weight->describe(), "int8 by rows");
  EXPECT_EQ(weight->dtype(), plan::DType::i8);
  EXPECT_FALSE(weight->isOf({BlockKind::Int8}));
  EXPECT_THAT(weight->parts(), ElementsAre("fc.SCB", "fc.weight_format"));
  std::vector<float> found = readNumbers(*weight, 0, 6);
  constexpr float part = 7.874015718698502e-3f;
  EXPECT_THAT(found,
              ElementsAre(127 * 2.0f * part, -127 * 2.0f * part, 0, 0.5f * part,
                          2 * 0.5f * part, 64 * 0.5f * part));
  EXPECT_EQ(readNumbers(*weight, 2, 3)[1], found[3]);
  file.setBytes("fc.weight_format", std::string(1, '\1'));
  EXPECT_THAT(file.refusal("fc.weight"), HasSubstr("weight_format"));
}

TEST_F(CodedWeights, OtherTensorsAreNone) {
  file.setFloats("fc.weight", std::vector<float>{1, 2});
  EXPECT_FALSE(file.find("fc.weight"));
  file.set("fc.weight", plan::DType::i8, {2, 3}, std::string(6, '\1'));
  EXPECT_FALSE(file.find("fc.weight"));
}

TEST_F(CodedWeights, WhatDoesNotFitIsRefused) {
  const std::string state = "fc.weight.quant_state.bitsandbytes__nf4";
  auto with = [&](const char *text) {
    write({});
    file.setBytes(state, text);
    return file.refusal("fc.weight");
  };
  for (const char *text : {"", "{", "[]", "{}", "7", R"({"quant_type": 3})"})
    EXPECT_THAT(with(text), HasSubstr("coded as bitsandbytes' layers do"))
        << text;
  EXPECT_THAT(with(R"({"quant_type": "fp4", "blocksize": 64, "shape": [4]})"),
              HasSubstr("of type \"fp4\""));
  for (const char *size : {"0", "63", "-64", "1e30", "64.5", "\"64\""})
    EXPECT_NE(with((R"({"quant_type": "nf4", "shape": [130, 133], )"
                    R"("blocksize": )" +
                    std::string(size) + "}")
                       .c_str()),
              "")
        << size;
  for (const char *shape : {"[]", "[0]", "[-130, -133]", "[130, 134]", "7",
                            "[4294967296, 4294967296, 16]"})
    EXPECT_NE(with((R"({"quant_type": "nf4", "blocksize": 64, "shape": )" +
                    std::string(shape) + "}")
                       .c_str()),
              "")
        << shape;
  for (const char *part : {"fc.weight.absmax", "fc.weight.quant_map"}) {
    write({});
    file.remove(part);
    EXPECT_THAT(file.refusal("fc.weight"), HasSubstr("is not there"));
    file.setBytes(part, "few");
    EXPECT_THAT(file.refusal("fc.weight"), HasSubstr("has not"));
  }
  BlockForm coded{BlockKind::Nf4, 64, true};
  for (const char *part : {"absmax", "nested_absmax", "nested_quant_map"}) {
    write(coded);
    file.remove("fc.weight." + std::string(part));
    EXPECT_THAT(file.refusal("fc.weight"), HasSubstr("is not there"));
    file.setFloats("fc.weight." + std::string(part), std::vector<float>{1});
    EXPECT_THAT(file.refusal("fc.weight"), HasSubstr("has not"));
  }
  write({});
  auto weight = file.find("fc.weight");
  EXPECT_NO_THROW(weight->checkShape("net.fc", {130, 133}, "model"));
  EXPECT_THROW(weight->checkShape("net.fc", {133, 130}, "model"), Error);
}

} // namespace
