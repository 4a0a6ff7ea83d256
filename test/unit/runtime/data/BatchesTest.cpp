//===- BatchesTest.cpp - The rows of a program's inputs -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/Batches.h"
#include "runtime/data/Samples.h"
#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/data/DataFiles.h"

#include <algorithm>
#include <cstring>

using namespace fsdp;
using namespace fsdp::test;

namespace {

class BatchesTest : public testing::Test {
protected:
  /// `x` has a row of two equal numbers, its own, for each of `rows` rows.
  Samples &write(int64_t rows, int64_t others) {
    std::vector<float> x, y;
    for (int64_t i = 0; i < rows; ++i)
      x.insert(x.end(), 2, static_cast<float>(i));
    for (int64_t i = 0; i < others; ++i)
      y.push_back(static_cast<float>(i));
    std::string path = folder.path() + "/data.safetensors";
    writeTensors(path, {{"x", {rows, 2}, x}, {"y", {others}, y}});
    return samples.emplace(path);
  }

  static plan::InputT input(const std::string &name,
                            std::vector<int64_t> shape) {
    plan::InputT input;
    input.name = name;
    input.shape = std::move(shape);
    return input;
  }

  static std::vector<float> floats(std::span<const std::byte> bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  TemporaryFolder folder;
  std::optional<Samples> samples;
};

TEST_F(BatchesTest, RanksReadDisjointRowsOfOneSequence) {
  Samples &source = write(24, 24);
  RunData data;
  data.shuffle = true;
  std::vector<float> expected;
  for (auto [ranks, batch] :
       {std::pair{1, 4}, {2, 2}, {3, 4}, {4, 1}, {8, 3}}) {
    plan::InputT x = input("x", {batch, 2});
    std::vector<std::unique_ptr<Batches>> all;
    for (int rank = 0; rank < ranks; ++rank)
      all.push_back(std::make_unique<Batches>(
          source, std::vector<const plan::InputT *>{&x}, data,
          RankRows{static_cast<uint64_t>(ranks), static_cast<uint64_t>(rank),
                   static_cast<uint64_t>(batch)}));
    std::vector<float> rows;
    for (int first = 0; first < 24; first += ranks * batch)
      for (const auto &each : all) {
        std::vector<float> found =
            floats(each->get(static_cast<uint64_t>(first)).front());
        for (int i = 0; i < batch; ++i)
          rows.push_back(found[2 * i]);
      }
    if (expected.empty())
      expected = rows;
    EXPECT_EQ(rows, expected) << ranks << " ranks of " << batch;
    std::sort(rows.begin(), rows.end());
    for (int i = 0; i < 24; ++i)
      EXPECT_EQ(rows[i], static_cast<float>(i));
  }
}

TEST_F(BatchesTest, InputsKeepTogetherWhatBelongsTogether) {
  Samples &source = write(10, 10);
  RunData data;
  data.shuffle = true;
  plan::InputT x = input("x", {3, 2}), y = input("y", {3});
  Batches batches(source, {&x, &y}, data, {2, 1, 3});
  for (uint64_t first = 0; first < 60; first += 6) {
    const auto &found = batches.get(first);
    std::vector<float> a = floats(found[0]), b = floats(found[1]);
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(a[2 * i], b[i]);
  }
}

TEST_F(BatchesTest, InputsMayHaveBatchesOfTheirOwn) {
  Samples &source = write(12, 6);
  plan::InputT x = input("x", {4, 2}), y = input("y", {2});
  Batches batches(source, {&x, &y}, {}, {2, 1, 4});
  const auto &found = batches.get(8); // x: rows 12 to 15, y: 6 and 7
  EXPECT_EQ(floats(found[0]), (std::vector<float>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(floats(found[1]), (std::vector<float>{0, 1}));
}

TEST_F(BatchesTest, InputsNeedAsManyRows) {
  Samples &source = write(12, 6);
  plan::InputT x = input("x", {1, 2}), y = input("y", {1});
  RunData data;
  for (auto set :
       {+[](RunData &) {}, +[](RunData &data) { data.shuffle = true; },
        +[](RunData &data) { data.epochs = 1; }}) {
    data = {};
    set(data);
    expectError(ErrorId::DataShape,
                "12 rows for input 'x' and 6 for 'y'; expected as many",
                [&] { Batches(source, {&x, &y}, data, {}); });
  }
  // In the file's order, as many for each batch are enough.
  plan::InputT pairs = input("x", {2, 2});
  Batches(source, {&pairs, &y}, {}, {1, 0, 2});
  plan::InputT four = input("x", {4, 2});
  expectError(ErrorId::DataShape, "expected 4 of the first for 1 of the second",
              [&] { Batches(source, {&four, &y}, {}, {1, 0, 4}); });
}

TEST_F(BatchesTest, AnInputMayBeginAgainOnItsOwn) {
  Samples &source = write(12, 5);
  plan::InputT x = input("x", {4, 2}), y = input("y", {4});
  RunData data;
  data.repeated = {"y"};
  data.epochs = 1;
  Batches batches(source, {&y, &x}, data, {1, 0, 4});
  EXPECT_EQ(batches.rows(), 12u);
  EXPECT_EQ(batches.stepsFrom(0, 4), 3u);
  EXPECT_EQ(floats(batches.get(4)[0]), (std::vector<float>{4, 0, 1, 2}));
}

TEST_F(BatchesTest, AFileThatIsCutOffIsAnErrorOfTheBatch) {
  Samples &source = write(4096, 4096);
  plan::InputT x = input("x", {1024, 2});
  Batches batches(source, {&x}, {}, {1, 0, 1024});
  std::filesystem::resize_file(folder.path() + "/data.safetensors", 200);
  expectError(ErrorId::FileNotReadable, "when it was opened",
              [&] { batches.get(0); });
}

} // namespace
