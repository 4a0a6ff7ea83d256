//===- WeightFilesTest.cpp - Tensors of several files by their names ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/weights/WeightFiles.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace fsdp;
namespace fs = std::filesystem;

namespace {

class WeightFilesTest : public testing::Test {
protected:
  void SetUp() override {
    folder =
        fs::temp_directory_path() / ("weights-" + std::to_string(getpid()));
    for (const char *name : {"base", "other"}) {
      fs::create_directories(folder / name);
      std::vector<TensorToStore> tensors{{"a", plan::DType::f32, {2}},
                                         {name, plan::DType::f32, {1}}};
      std::ofstream file(folder / name / "model.safetensors", std::ios::binary);
      file << layoutSafetensors(tensors) << std::string(12, '\0');
    }
  }
  void TearDown() override { fs::remove_all(folder); }
  std::string path(const char *name) const { return (folder / name).string(); }

  fs::path folder;
};

TEST_F(WeightFilesTest, TheFirstOfTwoCounts) {
  WeightFiles files({path("base"), path("other")});
  ASSERT_TRUE(files.find("a"));
  EXPECT_EQ(files.find("a")->file, 0u);
  EXPECT_TRUE(files.find("other"));
}

TEST_F(WeightFilesTest, APrefixStandsInFrontOfNames) {
  WeightFiles files({path("base"), "part.=" + path("other")});
  ASSERT_TRUE(files.find("part.a"));
  EXPECT_EQ(files.find("part.a")->file, 1u);
  EXPECT_EQ(files.find("a")->file, 0u);
  EXPECT_FALSE(files.find("other"));
  EXPECT_EQ(files.files()[1]->path(), path("other") + "/model.safetensors");
}

TEST_F(WeightFilesTest, OneFileCanBeTwoModels) {
  WeightFiles files({path("base"), "x.y.=" + path("base/model.safetensors")});
  EXPECT_EQ(files.files().size(), 1u);
  EXPECT_TRUE(files.find("a") && files.find("x.y.a"));
}

TEST(WeightPath, OnlyNamesWithADotAreAPrefix) {
  EXPECT_EQ(parseWeightPath("lr=0.1/model").prefix, "");
  EXPECT_EQ(parseWeightPath("runs/a.=b").path, "runs/a.=b");
  EXPECT_EQ(parseWeightPath("teacher.=").path, "teacher.=");
  EXPECT_EQ(parseWeightPath("teacher.=b").prefix, "teacher.");
  EXPECT_EQ(parseWeightPath("teacher.=b").path, "b");
}

} // namespace
