//===- CheckpointerTest.cpp - Runs that are saved and continued -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/Checkpointer.h"

#include "runtime/checkpoint/Folder.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/comm/Communicator.h"
#include "runtime/launch/Launch.h"
#include "support/Error.h"
#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/TinyModel.h"
#include "test/unit/runtime/checkpoint/ExpectError.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

using namespace fsdp;
using namespace fsdp::test;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

class CheckpointerTest : public testing::Test {
protected:
  void make(int worldSize) {
    TinyModel model;
    model.worldSize = worldSize;
    model.write(folder.path());
    launchOptions.artifact = folder.path() + "/step.fsdp";
    launchOptions.session.dataPath = "sample";
    launchOptions.backend = "local";
    launchOptions.threads = 1;
  }

  /// Steps until `steps` are done; rank 0's losses.
  std::vector<double> run(
      uint64_t steps,
      const std::function<void(Session &, Checkpointer &)> &after =
          [](Session &, Checkpointer &) {}) {
    std::vector<double> losses;
    launch(launchOptions, [&](Session &session) {
      Checkpointer checkpointer(session, options);
      while (session.stepsDone() < steps) {
        StepResult result = session.step();
        if (session.rank() == 0)
          losses.push_back(*result.loss);
        checkpointer.afterStep();
        after(session, checkpointer);
      }
      checkpointer.finish();
    });
    return losses;
  }

  std::vector<uint64_t> steps() const {
    return CheckpointFolder(options.folder).steps();
  }

  TemporaryFolder folder;
  LaunchOptions launchOptions;
  CheckpointOptions options{folder.path() + "/saved"};
};

TEST_F(CheckpointerTest, ContinuesBitForBit) {
  for (int world : {1, 2, 3, 6}) {
    for (bool isInStep : {false, true}) {
      make(world);
      launchOptions.session.checkpointPath.clear();
      fs::remove_all(options.folder);
      options.every = 0;
      std::vector<double> whole = run(7);
      fs::remove_all(options.folder);
      options.every = 2;
      options.isInStep = isInStep;
      std::vector<double> losses = run(3);
      EXPECT_THAT(steps(), ElementsAre(2, 3));
      launchOptions.session.checkpointPath = options.folder;
      for (double loss : run(7))
        losses.push_back(loss);
      EXPECT_EQ(losses, whole) << world;
      EXPECT_THAT(steps(), ElementsAre(2, 3, 4, 6, 7));
      Manifest manifest = readManifest(options.folder + "/step_7");
      EXPECT_EQ(manifest.rows, 7u * TinyModel::kBatch * world);
      EXPECT_EQ(manifest.worldSize(), static_cast<uint64_t>(world));
      EXPECT_EQ(manifest.lr, 0.1);
    }
  }
}

/// What is nowhere but in the checkpoint: the model's own values are not read.
TEST_F(CheckpointerTest, KeepsSoMany) {
  make(2);
  options.every = 1;
  options.keep = 2;
  run(5);
  EXPECT_THAT(steps(), ElementsAre(4, 5));
  // A step that is saved already is not saved again.
  launchOptions.session.checkpointPath = options.folder;
  EXPECT_THAT(run(5), ElementsAre());
  EXPECT_THAT(steps(), ElementsAre(4, 5));
}

TEST_F(CheckpointerTest, RefusesAnotherRunsFolder) {
  make(2);
  run(3);
  expectError(ErrorId::CheckpointInTheWay, "this run is at step 0",
              [&] { run(5); });
  launchOptions.session.checkpointPath = options.folder + "/step_3";
  run(5);
  expectError(ErrorId::CheckpointInTheWay, "this run is at step 3",
              [&] { run(6); });
  // Another folder's checkpoint of the same step is not this one.
  options.folder = folder.path() + "/other";
  run(4);
  launchOptions.session.checkpointPath = folder.path() + "/saved/step_5";
  run(5);
  EXPECT_THAT(steps(), ElementsAre(4, 5));
}

TEST_F(CheckpointerTest, StartsFromScratchOnlyWhereItMay) {
  make(2);
  launchOptions.session.checkpointPath = options.folder;
  expectError(ErrorId::CheckpointMissing, "holds no checkpoint",
              [&] { run(1); });
  launchOptions.session.mayLackCheckpoint = true;
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(1).size(), 1u);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("the run starts from scratch"));
  EXPECT_EQ(run(3).size(), 2u);
}

/// The error of one rank's file reaches all ranks with the next call, and the
/// checkpoint before is as it was.
TEST_F(CheckpointerTest, ReportsWhatTheWriterMet) {
  make(3);
  options.isInStep = true;
  options.every = 1;
  std::string before;
  expectError(ErrorId::CheckpointNotWritten, "step_3' was not written", [&] {
    run(5, [&](Session &session, Checkpointer &) {
      if (session.stepsDone() == 2 && session.rank() == 0)
        std::ofstream(options.folder + "/step_3.tmp") << "in the way";
      if (session.stepsDone() == 2 && session.rank() == 0)
        fs::create_directories(options.folder + "/step_3/x");
      session.fabric().exchange("met/" + std::to_string(session.stepsDone()),
                                "");
    });
  });
  EXPECT_THAT(steps(), ElementsAre(1, 2));
  EXPECT_FALSE(fs::exists(options.folder + "/step_3.tmp"));
  fs::remove_all(options.folder + "/step_3");
  launchOptions.session.checkpointPath = options.folder;
  EXPECT_EQ(run(4).size(), 2u);
}

TEST_F(CheckpointerTest, EndsWithoutWaitingForPeersThatFailed) {
  make(2);
  launchOptions.deadline = std::chrono::minutes(5);
  auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(run(5,
                   [&](Session &session, Checkpointer &checkpointer) {
                     // Rank 1 never takes part in the save.
                     if (session.rank() == 1) {
                       session.fabric().abort("rank 1 is gone");
                       throw Error(ErrorId::KernelFailed, "rank 1 is gone");
                     }
                     checkpointer.save();
                     checkpointer.finish();
                   }),
               Error);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
}

} // namespace
