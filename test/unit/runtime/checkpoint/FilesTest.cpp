//===- FilesTest.cpp - Files and folders of checkpoints -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/checkpoint/CheckedFile.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/checkpoint/Manifest.h"
#include "support/AtomicFile.h"
#include "support/Error.h"
#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/checkpoint/ExpectError.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

using namespace fsdp;
using namespace fsdp::test;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

std::string readAll(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

//===----------------------------------------------------------------------===//
// One file
//===----------------------------------------------------------------------===//

class CheckedFileTest : public testing::Test {
protected:
  /// Some blocks of a mebibyte, the last one not whole.
  void write() {
    large.resize(700'000);
    std::iota(large.begin(), large.end(), 1);
    seal = writeCheckedFile(path(),
                            {{"small",
                              plan::DType::i16,
                              {{4}, {3}},
                              reinterpret_cast<const char *>(small)},
                             {"large",
                              plan::DType::f32,
                              {{10, 0}, {700, 1000}},
                              reinterpret_cast<const char *>(large.data())}});
  }
  std::string path() const { return folder.path() + "/x.safetensors"; }

  std::vector<float> readLarge(uint64_t first, uint64_t count) {
    CheckedFile file(path(), seal);
    std::vector<float> values(count);
    for (const StoredPiece &piece : file.pieces())
      if (piece.name == "large")
        file.read(piece.offset + first * sizeof(float), count * sizeof(float),
                  reinterpret_cast<char *>(values.data()));
    return values;
  }

  TemporaryFolder folder;
  const int16_t small[3] = {7, 8, 9};
  std::vector<float> large;
  FileSeal seal;
};

TEST_F(CheckedFileTest, GivesBackWhatWasWritten) {
  write();
  EXPECT_EQ(seal.name, "x.safetensors");
  EXPECT_EQ(seal.bytes, fs::file_size(path()));
  CheckedFile file(path(), seal);
  EXPECT_TRUE(file.isOurs());
  ASSERT_EQ(file.pieces().size(), 2u);
  EXPECT_EQ(file.pieces()[0].region, (Region{{10, 0}, {700, 1000}}));
  EXPECT_EQ(file.pieces()[1].region, (Region{{4}, {3}}));
  EXPECT_EQ(readLarge(0, large.size()), large);
  for (auto [first, count] :
       {std::pair<uint64_t, uint64_t>{0, 1}, {262'000, 300}, {699'999, 1}})
    EXPECT_THAT(readLarge(first, count),
                testing::ElementsAreArray(large.data() + first, count));
}

TEST_F(CheckedFileTest, ShowsEveryChangedByte) {
  write();
  std::string whole = readAll(path());
  // In the length, the header, the hashes, the first and last byte of data.
  CheckedFile file(path(), seal);
  size_t data = file.pieces()[0].offset, hashes = whole.find("XXH3") + 20;
  for (size_t at : {size_t{0}, size_t{9}, hashes, data, whole.size() - 1}) {
    std::string bytes = whole;
    bytes[at] ^= 1;
    std::ofstream(path(), std::ios::binary) << bytes;
    expectError(ErrorId::CheckpointDamaged, "x.safetensors", [&] {
      CheckedFile file(path(), seal);
      std::vector<char> all(2 << 20);
      for (const StoredPiece &piece : file.pieces())
        file.read(piece.offset,
                  piece.region.elements() * (piece.name == "large" ? 4 : 2),
                  (all.resize(4 << 20), all.data()));
    });
  }
  // What is not read is not checked.
  std::string bytes = whole;
  bytes[data] ^= 1;
  std::ofstream(path(), std::ios::binary) << bytes;
  EXPECT_EQ(readLarge(699'999, 1).front(), large.back());
}

TEST_F(CheckedFileTest, MustHaveItsSizeAndHashes) {
  write();
  std::string whole = readAll(path());
  for (size_t size : {size_t{0}, size_t{5}, whole.size() - 1}) {
    fs::resize_file(path(), size);
    expectError(ErrorId::CheckpointDamaged, "bytes; the checkpoint was written",
                [&] { CheckedFile file(path(), seal); });
  }
  fs::remove(path());
  expectError(ErrorId::FileNotReadable, "those of the other ranks too",
              [&] { CheckedFile file(path(), seal); });
  // A file of another writer has none, and needs none without a seal.
  writeTensors(path(), {{"a", {2}, {1, 2}}});
  EXPECT_FALSE(CheckedFile(path(), std::nullopt).isOurs());
  expectError(ErrorId::CheckpointDamaged, "has no hashes", [&] {
    SafetensorsFile head(path());
    CheckedFile file(path(),
                     FileSeal{"x.safetensors", head.size(), head.headerHash()});
  });
}

TEST_F(CheckedFileTest, MayBeEmpty) {
  seal = writeCheckedFile(
      path(), {{"none", plan::DType::f32, {{0, 0}, {0, 4}}, nullptr}});
  CheckedFile file(path(), seal);
  ASSERT_EQ(file.pieces().size(), 1u);
  EXPECT_EQ(file.pieces()[0].region.elements(), 0u);
}

//===----------------------------------------------------------------------===//
// The manifest
//===----------------------------------------------------------------------===//

Manifest makeManifest(uint64_t step) {
  Manifest manifest;
  manifest.step = step;
  manifest.rows = 12345678901;
  manifest.seed = UINT64_MAX;
  manifest.lr = 0.1;
  manifest.schedule = "cosine, warm-up 10";
  manifest.mesh = {{"replicate", 2}, {"shard", 3}};
  manifest.plan = "0123";
  manifest.states = {
      {"net.weight", plan::Role::parameter, plan::DType::bf16, {3, 4}},
      {"net.mean", plan::Role::buffer, plan::DType::f32, {}, 3}};
  return manifest;
}

TEST(ManifestTest, GivesBackWhatWasPrinted) {
  Manifest manifest = makeManifest(7);
  manifest.files = {{"a.safetensors", 17, "abc"}};
  Manifest read = parseManifest(printManifest(manifest), "m");
  EXPECT_EQ(printManifest(read), printManifest(manifest));
  EXPECT_EQ(read.step, 7u);
  EXPECT_EQ(read.rows, 12345678901u);
  EXPECT_EQ(read.seed, UINT64_MAX);
  EXPECT_EQ(read.lr, 0.1);
  EXPECT_EQ(read.worldSize(), 6u);
  EXPECT_EQ(read.mesh, manifest.mesh);
  EXPECT_EQ(read.states[0].copies, 1u);
  EXPECT_EQ(read.states[1].copies, 3u);
  EXPECT_EQ(read.states[0].dtype, plan::DType::bf16);
  EXPECT_EQ(read.files[0].bytes, 17u);
}

TEST(ManifestTest, ShowsChanges) {
  std::string text = printManifest(makeManifest(7));
  auto replaced = [&](const std::string &from, const std::string &to) {
    std::string copy = text;
    copy.replace(copy.find(from), from.size(), to);
    return copy;
  };
  for (const std::string &changed :
       {replaced("\"step\": 7", "\"step\": 8"), replaced("bf16", "f32"),
        text.substr(0, text.size() / 2), std::string(), std::string("[]"),
        std::string("{\"format\": \"other\"}")})
    expectError(ErrorId::CheckpointDamaged, "'m' is no manifest",
                [&] { parseManifest(changed, "m"); });
  expectError(ErrorId::CheckpointVersion, "has version 2 of the format", [&] {
    parseManifest(replaced("\"format_version\": 1", "\"format_version\": 2"),
                  "m");
  });
}

TEST(ManifestTest, NamesFilesOfItsOwnFolder) {
  Manifest manifest = makeManifest(1);
  manifest.files = {{"../a.safetensors", 17, "abc"}};
  expectError(ErrorId::CheckpointDamaged, "of another folder",
              [&] { parseManifest(printManifest(manifest), "m"); });
}

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

class FolderTest : public testing::Test {
protected:
  void commit(uint64_t step) {
    folder.begin(step);
    Manifest manifest = makeManifest(step);
    std::string to = folder.temporaryOf(step) + "/";
    std::string data(100, 'x');
    writeFileAtomically(to + "a.safetensors", data);
    manifest.files = {{"a.safetensors", data.size(), ""}};
    writeFileAtomically(to + kManifestName, printManifest(manifest));
    folder.commit(step);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto &each : fs::directory_iterator(folder.path()))
      found.push_back(each.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }

  TemporaryFolder holder;
  CheckpointFolder folder{holder.path() + "/some/where"};
};

TEST_F(FolderTest, KeepsTheNewest) {
  folder.checkWritable();
  EXPECT_THAT(folder.steps(), ElementsAre());
  for (uint64_t step : {2, 10, 9})
    commit(step);
  EXPECT_THAT(folder.steps(), ElementsAre(2, 9, 10));
  folder.keep(5);
  EXPECT_THAT(names(), ElementsAre("step_10", "step_2", "step_9"));
  folder.keep(2);
  EXPECT_THAT(names(), ElementsAre("step_10", "step_9"));
}

TEST_F(FolderTest, DropsWhatWasNotFinished) {
  folder.checkWritable();
  folder.begin(3);
  writeFileAtomically(folder.temporaryOf(3) + "/shard", "half");
  // Not ours.
  fs::create_directory(folder.path() + "/step_x.tmp");
  EXPECT_THAT(folder.steps(), ElementsAre());
  EXPECT_EQ(findCheckpoint(folder.path()), std::nullopt);
  commit(4);
  EXPECT_THAT(names(), ElementsAre("step_4", "step_x.tmp"));
}

TEST_F(FolderTest, KeepingRemovesWhatAnEndedRunWasRemoving) {
  folder.checkWritable();
  for (uint64_t step : {1, 2, 3})
    commit(step);
  fs::rename(folder.nameOf(1), folder.temporaryOf(1));
  folder.keep(2);
  EXPECT_THAT(names(), ElementsAre("step_2", "step_3"));
}

TEST_F(FolderTest, NeverReplacesACheckpoint) {
  folder.checkWritable();
  commit(4);
  expectError(ErrorId::CheckpointNotWritten, "cannot be put in its place",
              [&] { commit(4); });
  EXPECT_THAT(folder.steps(), ElementsAre(4));
}

TEST_F(FolderTest, FindsTheNewestThatIsWhole) {
  EXPECT_EQ(findCheckpoint(folder.path()), std::nullopt);
  folder.checkWritable();
  for (uint64_t step : {1, 2, 3, 4})
    commit(step);
  EXPECT_EQ(findCheckpoint(folder.path()), folder.nameOf(4));
  EXPECT_EQ(findCheckpoint(folder.nameOf(2)), folder.nameOf(2));
  fs::resize_file(folder.nameOf(4) + "/a.safetensors", 99);
  std::ofstream(folder.nameOf(3) + "/" + kManifestName) << "{}";
  testing::internal::CaptureStderr();
  EXPECT_EQ(findCheckpoint(folder.path()), folder.nameOf(2));
  std::string warnings = testing::internal::GetCapturedStderr();
  EXPECT_THAT(warnings, HasSubstr("of 100 bytes, found 99"));
  EXPECT_THAT(warnings, HasSubstr("is no manifest"));
  // By name, it is an error.
  expectError(ErrorId::CheckpointDamaged, "found 99",
              [&] { findCheckpoint(folder.nameOf(4)); });
  fs::remove(folder.nameOf(4) + "/a.safetensors");
  expectError(ErrorId::CheckpointDamaged, "No such file",
              [&] { findCheckpoint(folder.nameOf(4)); });
}

TEST_F(FolderTest, SaysWhyItCannotBeWrittenTo) {
  std::ofstream(holder.path() + "/some") << "a file";
  expectError(ErrorId::CheckpointNotWritten, "cannot be made",
              [&] { folder.checkWritable(); });
}

} // namespace
