//===- LengthsTest.cpp - Rows of lengths of their own ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/Batches.h"
#include "runtime/data/RaggedSamples.h"
#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/data/DataFiles.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>

using namespace fsdp;
using namespace fsdp::test;
using testing::ElementsAre;
using testing::ElementsAreArray;

namespace {

template <typename T>
std::vector<T> values(std::span<const std::byte> bytes) {
  std::vector<T> all(bytes.size() / sizeof(T));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

plan::InputT makeInput(const std::string &name, std::vector<int64_t> shape,
                       plan::DType dtype = plan::DType::i64) {
  plan::InputT input;
  input.name = name;
  input.shape = std::move(shape);
  input.dtype = dtype;
  return input;
}

RunData padded(const std::string &input, double value) {
  RunData data;
  data.pad.push_back(std::make_unique<plan::PaddingT>());
  data.pad.back()->input = input;
  data.pad.back()->value = value;
  return data;
}

class LengthsTest : public testing::Test {
protected:
  struct Tensor {
    std::string name;
    plan::DType dtype;
    std::vector<int64_t> shape;
    std::string bytes;
  };

  void store(const std::vector<Tensor> &tensors) {
    std::vector<TensorToStore> layout;
    for (const Tensor &tensor : tensors)
      layout.push_back({tensor.name, tensor.dtype, tensor.shape});
    std::string head = layoutSafetensors(layout), body;
    for (size_t i = 0; i < tensors.size(); ++i) {
      body.resize(std::max(body.size(), layout[i].offset - head.size() +
                                            tensors[i].bytes.size()));
      body.replace(layout[i].offset - head.size(), tensors[i].bytes.size(),
                   tensors[i].bytes);
    }
    writeFile(path, head + body);
  }

  static Tensor offsets(const std::vector<int64_t> &lengths) {
    std::vector<int64_t> all{0};
    for (int64_t length : lengths)
      all.push_back(all.back() + length);
    return {"row_offsets",
            plan::DType::i64,
            {static_cast<int64_t>(all.size())},
            toBytes(all)};
  }

  /// Token i of row r is 100 r + i, its label one more; `kind` is r.
  void write(const std::vector<int64_t> &lengths) {
    std::vector<int64_t> ids, labels, kinds;
    for (size_t row = 0; row < lengths.size(); ++row) {
      kinds.push_back(static_cast<int64_t>(row));
      for (int64_t i = 0; i < lengths[row]; ++i) {
        ids.push_back(static_cast<int64_t>(100 * row) + i);
        labels.push_back(ids.back() + 1);
      }
    }
    auto total = static_cast<int64_t>(ids.size());
    store({{"ids", plan::DType::i64, {total}, toBytes(ids)},
           {"labels", plan::DType::i64, {total}, toBytes(labels)},
           {"kind",
            plan::DType::i64,
            {static_cast<int64_t>(kinds.size())},
            toBytes(kinds)},
           offsets(lengths)});
  }

  /// What the rows of `lengths` are read in, by an order.
  std::vector<uint64_t> order(const std::vector<int64_t> &lengths,
                              const RunData &data, uint64_t count) {
    write(lengths);
    RaggedSamples source(path, data);
    RowOrder order(lengths.size(), data, source.lengths());
    std::vector<uint64_t> rows;
    for (uint64_t i = 0; i < count; ++i)
      rows.push_back(order.at(i, 1).first);
    return rows;
  }

  TemporaryFolder folder;
  std::string path = folder.path() + "/rows.safetensors";
};

TEST_F(LengthsTest, RowsArePaddedToTheInput) {
  write({3, 1, 2});
  EXPECT_TRUE(RaggedSamples::isOne(path));
  RaggedSamples source(path, padded("ids", 7));
  EXPECT_THAT(source.names(),
              testing::UnorderedElementsAre("ids", "labels", "kind"));
  auto read = [&](const plan::InputT &input, uint64_t first, uint64_t count) {
    std::vector<std::byte> bytes(count * 4 * 8);
    source.open(input)->read(first, count, bytes.data());
    return values<int64_t>(bytes);
  };
  EXPECT_THAT(read(makeInput("ids", {1, 4}), 0, 3),
              ElementsAre(0, 1, 2, 7, 100, 7, 7, 7, 200, 201, 7, 7));
  EXPECT_THAT(read(makeInput("labels", {1, 4}), 1, 2),
              ElementsAre(101, -100, -100, -100, 201, 202, -100, -100));
  EXPECT_THAT(read(makeInput("attention_mask", {1, 4}), 0, 2),
              ElementsAre(1, 1, 1, 0, 1, 0, 0, 0));
  EXPECT_EQ(source.open(makeInput("ids", {1, 4}))->tokens(), 4u);
  // Without lengths.
  std::unique_ptr<RowReader> kind = source.open(makeInput("kind", {2}));
  EXPECT_EQ(kind->tokens(), 0u);
  EXPECT_EQ(kind->rows(), 3u);
  EXPECT_EQ(source.open(makeInput("nothing", {1, 4})), nullptr);
}

TEST_F(LengthsTest, MasksAreMadeOfWhatCounts) {
  write({3, 1});
  RaggedSamples source(path, {});
  std::vector<std::byte> bytes(4);
  source.open(makeInput("attention_mask", {1, 4}, plan::DType::bool_))
      ->read(1, 1, bytes.data());
  EXPECT_THAT(values<uint8_t>(bytes), ElementsAre(1, 0, 0, 0));
  // A mask of floating-point numbers may be one that is added.
  EXPECT_FALSE(
      source.makes(makeInput("attention_mask", {1, 4}, plan::DType::f32)));
  EXPECT_FALSE(source.makes(makeInput("attention_mask", {1, 1, 4, 4})));
  EXPECT_FALSE(source.makes(makeInput("mask", {1, 4})));
}

TEST_F(LengthsTest, PaddingIsSaidAndFits) {
  write({3, 1});
  expectError(ErrorId::DataPadding, "nothing says what input 'ids' has behind",
              [&] { RaggedSamples(path, {}).open(makeInput("ids", {1, 4})); });
  for (double value : {0.5, 1e19, -1e19})
    expectError(ErrorId::DataPadding, "which its type i64 does not hold", [&] {
      RaggedSamples(path, padded("ids", value)).open(makeInput("ids", {1, 4}));
    });
  // What is said goes before what is known.
  RaggedSamples source(path, padded("labels", -1));
  std::vector<std::byte> bytes(16);
  source.open(makeInput("labels", {1, 2}))->read(1, 1, bytes.data());
  EXPECT_THAT(values<int64_t>(bytes), ElementsAre(101, -1));
}

TEST_F(LengthsTest, OffsetsRise) {
  auto refused = [&](Tensor tensor, const std::string &text) {
    store({std::move(tensor)});
    expectError(ErrorId::DataFileInvalid, text,
                [&] { RaggedSamples(path, {}); });
  };
  auto numbers = [](std::vector<int64_t> all) {
    return Tensor{"row_offsets",
                  plan::DType::i64,
                  {static_cast<int64_t>(all.size())},
                  toBytes(all)};
  };
  refused(numbers({0}), "found 1 numbers");
  refused(numbers({1, 2}), "found 1 as the first");
  refused(numbers({0, 2, 2}), "found 2 behind 2 at row 1");
  refused(numbers({0, 3, 2}), "found 2 behind 3 at row 1");
  refused(numbers({0, -3}), "found -3 behind 0 at row 0");
  refused({"row_offsets", plan::DType::i32, {2}, std::string(8, '\0')},
          "found i32[2]");
}

TEST_F(LengthsTest, AFileThatIsWrittenToIsAnError) {
  write({3, 1, 2});
  RaggedSamples source(path, padded("ids", 7));
  std::unique_ptr<RowReader> reader = source.open(makeInput("ids", {1, 4}));
  std::vector<std::byte> bytes(32);
  reader->read(1, 1, bytes.data());
  // The last tensor, as long as the file was.
  Tensor other = offsets({3, 1, 200});
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  std::string content(std::istreambuf_iterator<char>(file), {});
  size_t at = content.find(offsets({3, 1, 2}).bytes);
  ASSERT_NE(at, std::string::npos);
  file.seekp(static_cast<std::streamoff>(at));
  file << other.bytes << std::flush;
  expectError(ErrorId::FileNotReadable,
              "has other rows than when it was opened",
              [&] { reader->read(2, 1, bytes.data()); });
}

TEST_F(LengthsTest, TensorsHaveATokensOrARowsShape) {
  write({3, 1});
  RaggedSamples source(path, padded("ids", 0));
  auto refused = [&](const plan::InputT &input, ErrorId id,
                     const std::string &text) {
    expectError(id, text, [&] { source.open(input); });
  };
  refused(makeInput("ids", {1, 4, 2}), ErrorId::DataShape,
          "has shape [4]; expected [4, 2], the tokens of all rows");
  refused(makeInput("ids", {1}), ErrorId::DataShape,
          "has 4 rows, and 'row_offsets' has 2");
  refused(makeInput("ids", {1, 4}, plan::DType::i32), ErrorId::DataType,
          "expected i32");
}

TEST_F(LengthsTest, PoolsAreSortedAndGroupsStayTogether) {
  std::vector<int64_t> lengths(37);
  for (size_t i = 0; i < lengths.size(); ++i)
    lengths[i] = 1 + static_cast<int64_t>(i * 17 % 31);
  RunData data;
  data.length_pool = 12;
  data.length_group = 4;
  auto isSorted = [&](std::span<const uint64_t> rows) {
    return std::ranges::is_sorted(rows, {},
                                  [&](uint64_t row) { return lengths[row]; });
  };
  for (bool shuffle : {false, true}) {
    data.shuffle = shuffle;
    std::vector<uint64_t> rows = order(lengths, data, 2 * 37);
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
      std::span<const uint64_t> all(rows.data() + epoch * 37, 37);
      std::vector<uint64_t> each(all.begin(), all.end());
      std::ranges::sort(each);
      std::vector<uint64_t> numbers(37);
      std::iota(numbers.begin(), numbers.end(), 0);
      EXPECT_EQ(each, numbers);
      bool areGroupsSorted = true;
      for (uint64_t pool = 0; pool < 36; pool += 12) {
        for (uint64_t group = 0; group < 12; group += 4)
          EXPECT_TRUE(isSorted(all.subspan(pool + group, 4)));
        areGroupsSorted &= isSorted(all.subspan(pool, 12));
      }
      EXPECT_NE(areGroupsSorted, shuffle);
    }
    if (!shuffle) // Rows of a pool are those of the file.
      for (uint64_t i = 0; i < 12; ++i)
        EXPECT_LT(rows[i], 12u);
    EXPECT_EQ(std::equal(rows.begin(), rows.begin() + 37, rows.begin() + 37),
              !shuffle);
    data.seed = 4;
    EXPECT_EQ(order(lengths, data, 74) != rows, shuffle);
    data.seed = 0;
    EXPECT_EQ(order(lengths, data, 74), rows);
  }
}

TEST_F(LengthsTest, PoolsMayBeAskedForInAnyOrder) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 64; ++i)
    lengths.push_back(1 + i * 13 % 29);
  RunData data;
  data.length_pool = 8;
  data.length_group = 2;
  data.shuffle = true;
  std::vector<uint64_t> rows = order(lengths, data, 128);
  RaggedSamples source(path, data);
  RowOrder order(64, data, source.lengths());
  for (uint64_t i : {100, 3, 60, 4, 127, 100, 5, 64, 63})
    EXPECT_EQ(order.at(i, 9).first, rows[i]);
}

/// Of three programs the shortest one that holds a whole step, the same for
/// all ranks and micro-batches, wherever steps begin.
TEST_F(LengthsTest, StepsChooseTheirProgram) {
  write({2, 1, 4, 3, 7, 1, 1, 2, 1, 1, 8, 1});
  RunData data = padded("ids", -5);
  RaggedSamples source(path, data);
  std::vector<plan::InputT> inputs;
  for (int64_t tokens : {8, 2, 4})
    inputs.push_back(makeInput("ids", {1, tokens}));
  std::vector<Batches::InputList> programs;
  for (const plan::InputT &input : inputs)
    programs.push_back({&input});
  auto check = [&](uint64_t begin, uint64_t stepRows,
                   std::vector<size_t> expected) {
    for (uint64_t rank : {0, 1}) {
      Batches batches(source, programs, data, {2, rank, 1},
                      {{begin, stepRows}, nullptr});
      EXPECT_TRUE(batches.isChoosing());
      std::vector<size_t> found;
      for (uint64_t row = begin; row + stepRows <= 12 + begin; row += stepRows)
        for (uint64_t first = row; first < row + stepRows; first += 2) {
          size_t program = batches.programOf(first);
          if (first == row)
            found.push_back(program);
          EXPECT_EQ(program, found.back());
          auto bytes = batches.get(first);
          std::vector<int64_t> ids = values<int64_t>(bytes[0]);
          EXPECT_EQ(ids.size(), static_cast<size_t>(inputs[program].shape[1]));
          uint64_t own = (first + rank) % 12;
          EXPECT_EQ(ids[0], static_cast<int64_t>(100 * own));
          EXPECT_EQ(batches.rowOf(0, first, 0), own);
        }
      EXPECT_EQ(found, expected);
    }
  };
  check(0, 2, {1, 2, 0, 1, 1, 0});
  check(0, 4, {2, 0, 0});
  check(1, 2, {2, 0, 1, 1, 0, 1});
}

TEST_F(LengthsTest, ProgramsDifferInLengthAlone) {
  write({2, 5});
  RunData data = padded("ids", 0);
  RaggedSamples source(path, data);
  auto refused = [&](std::vector<std::vector<plan::InputT>> all, ErrorId id,
                     const std::string &text) {
    std::vector<Batches::InputList> programs;
    for (const auto &inputs : all) {
      programs.emplace_back();
      for (const plan::InputT &input : inputs)
        programs.back().push_back(&input);
    }
    expectError(id, text, [&] {
      Batches(source, programs, data, {1, 0, 1}, {{0, 1}, nullptr});
    });
  };
  refused({{makeInput("ids", {1, 2})}, {makeInput("ids", {1, 4})}},
          ErrorId::RowTooLong,
          "row 1 of '" + path +
              "' has 5 tokens, and the longest program takes "
              "4; cut it, or compile the model for 5 tokens");
  refused({{makeInput("ids", {1, 8})}, {makeInput("ids", {2, 8})}},
          ErrorId::DataShape,
          "several programs of the artifact take rows of 8");
  refused({{makeInput("ids", {1, 8})}, {makeInput("ids", {2, 4})}},
          ErrorId::DataShape, "take 1 and 2 rows of input 'ids'");
  refused({{makeInput("ids", {1, 8}), makeInput("labels", {1, 6})}},
          ErrorId::DataShape,
          "input 'ids' takes rows of 8 tokens, 'labels' of 6");
  data.repeated = {"ids"};
  refused({{makeInput("ids", {1, 8})}}, ErrorId::DataShape,
          "'repeat' names input 'ids'");
}

TEST_F(LengthsTest, LabelsOfAStepAreCounted) {
  std::vector<int64_t> labels{-100, 2, 3, 4, -100, 6};
  store(
      {{"labels", plan::DType::i64, {6}, toBytes(labels)}, offsets({3, 1, 2})});
  RunData data;
  RaggedSamples source(path, data);
  plan::InputT input = makeInput("labels", {1, 3});
  auto count = [&](uint64_t begin, uint64_t rows, bool shifts) {
    data.shifts_labels = shifts;
    Batches batches(source, {{&input}}, data, {1, 0, 1},
                    {{begin, rows}, &input});
    std::vector<uint64_t> found;
    for (uint64_t row = begin; row < begin + 3 * rows; row += rows)
      found.push_back(batches.countLabels(row + rows - 1));
    return found;
  };
  EXPECT_THAT(count(0, 1, false), ElementsAre(2, 1, 1));
  EXPECT_THAT(count(0, 1, true), ElementsAre(2, 0, 1));
  EXPECT_THAT(count(0, 2, false), ElementsAre(3, 3, 2));
  EXPECT_THAT(count(1, 2, false), ElementsAre(2, 3, 3));
}

} // namespace
