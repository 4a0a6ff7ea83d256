//===- TrainTest.cpp - Trained weights against plain loops ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/Train.h"
#include "runtime/launch/Launch.h"
#include "runtime/weights/Safetensors.h"
#include "support/Error.h"
#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/TinyModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <mutex>

using namespace fsdp;
using namespace fsdp::test;
using testing::ElementsAre;

namespace {

struct Case {
  std::string name;
  TinyModel model;
};

void PrintTo(const Case &value, std::ostream *stream) { *stream << value.name; }

struct Outcome {
  std::vector<StepResult> steps;
  std::vector<float> weight;
  MemoryUse memory;
};

std::vector<float> floats(const StoredTensor &tensor) {
  size_t count = 1;
  for (int64_t size : tensor.shape)
    count *= static_cast<size_t>(size);
  std::vector<float> values(count);
  std::memcpy(values.data(), tensor.data, count * sizeof(float));
  return values;
}

Outcome run(const LaunchOptions &options, const std::string &folder,
            int steps) {
  Outcome outcome;
  std::string path = folder + "/final.safetensors";
  launch(options, [&](Session &session) {
    for (int i = 0; i < steps; ++i) {
      StepResult result = session.step();
      if (session.rank() == 0)
        outcome.steps.push_back(result);
    }
    if (session.rank() == 0)
      outcome.memory = session.memory();
    session.exportWeights(path);
  });
  SafetensorsFile file(path);
  outcome.weight = floats(file.tensors().at("net.weight"));
  EXPECT_EQ(floats(file.tensors().at("tied.weight")), outcome.weight);
  EXPECT_EQ(floats(file.tensors().at("net.scale")), std::vector<float>{2.5f});
  EXPECT_EQ(file.tensors().size(), 3u);
  return outcome;
}

class TrainTest : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    options = GetParam().model.writeForThreads(folder.path());
  }

  TemporaryFolder folder;
  LaunchOptions options;
};

std::vector<float> repeat(const std::vector<float> &values, int times) {
  std::vector<float> all;
  for (int i = 0; i < times; ++i)
    all.insert(all.end(), values.begin(), values.end());
  return all;
}

TEST_P(TrainTest, EqualsPlainLoops) {
  const TinyModel &model = GetParam().model;
  Outcome outcome = run(options, folder.path(), 5);
  TinyReference reference(model);
  for (const StepResult &result : outcome.steps) {
    reference.step(repeat(TinyModel::sampleX(model.in), model.worldSize),
                   repeat(TinyModel::sampleY(), model.worldSize));
    EXPECT_NEAR(*result.loss, reference.loss, 1e-5);
    EXPECT_NEAR(*result.gradNorm, reference.gradNorm, 1e-5);
    EXPECT_EQ(result.lr, model.lr);
    EXPECT_EQ(result.unplannedBytes, 0u);
  }
  for (size_t i = 0; i < outcome.weight.size(); ++i)
    EXPECT_NEAR(outcome.weight[i], reference.weight[i], 2e-5) << i;
  EXPECT_LT(outcome.memory.scratch, 4096u);
}

TEST_P(TrainTest, RepeatsBitForBit) {
  Outcome a = run(options, folder.path(), 3);
  Outcome b = run(options, folder.path(), 3);
  EXPECT_EQ(a.weight, b.weight);
  for (size_t i = 0; i < a.steps.size(); ++i)
    EXPECT_EQ(a.steps[i].loss, b.steps[i].loss);
}

/// Whatever a step reads, it or a state has written before.
TEST_P(TrainTest, PoisonedMemoryChangesNothing) {
  Outcome plain = run(options, folder.path(), 3);
  options.session.poison = true;
  Outcome poisoned = run(options, folder.path(), 3);
  EXPECT_EQ(plain.weight, poisoned.weight);
  for (size_t i = 0; i < plain.steps.size(); ++i)
    EXPECT_EQ(plain.steps[i].gradNorm, poisoned.steps[i].gradNorm);
}

TinyModel make(int worldSize, Optimizer optimizer, double maxGradNorm = 0) {
  TinyModel model;
  model.worldSize = worldSize;
  model.optimizer = optimizer;
  model.maxGradNorm = maxGradNorm;
  return model;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  // Six ranks: one holds padding alone.
  for (int world : {1, 2, 3, 4, 6}) {
    std::string ranks = std::to_string(world);
    all.push_back({"adamw" + ranks, make(world, Optimizer::adamw)});
    all.push_back({"adam" + ranks, make(world, Optimizer::adam)});
    all.push_back({"sgd" + ranks, make(world, Optimizer::sgd)});
    all.push_back({"clipped" + ranks, make(world, Optimizer::adamw, 0.25)});
    all.push_back({"clippedSgd" + ranks, make(world, Optimizer::sgd, 0.25)});
  }
  for (int world : {2, 3, 4, 6}) {
    TinyModel model = make(world, Optimizer::adamw, 0.25);
    model.in = 16;
    all.push_back({"shared" + std::to_string(world), model});
  }
  TinyModel model = make(2, Optimizer::adamw);
  model.isTransposed = true;
  all.push_back({"otherLayout", model});
  model.isTransposed = false;
  model.isSourceStrided = true;
  all.push_back({"stridedSource", model});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, TrainTest, testing::ValuesIn(cases()),
                         [](const auto &info) { return info.param.name; });

TEST(PoisonTest, ShowsPaddingThatNobodyZeroed) {
  TinyModel model = make(2, Optimizer::sgd);
  model.zeroesPadding = false;
  TemporaryFolder folder;
  LaunchOptions options = model.writeForThreads(folder.path());
  options.session.poison = true;
  options.session.onNonFinite = "ignore";
  std::optional<double> norm;
  launch(options, [&](Session &session) {
    StepResult result = session.step();
    if (session.rank() == 0)
      norm = result.gradNorm;
  });
  ASSERT_TRUE(norm);
  EXPECT_TRUE(std::isnan(*norm)) << *norm;
}

TEST(CollectivesTest, AreCounted) {
  TemporaryFolder folder;
  LaunchOptions options =
      make(2, Optimizer::sgd).writeForThreads(folder.path());
  std::vector<std::vector<CollectiveCount>> steps;
  launch(options, [&](Session &session) {
    for (int i = 0; i < 2; ++i) {
      StepResult result = session.step();
      if (session.rank() == 1)
        steps.push_back(result.collectives);
    }
  });
  // Five rows over two ranks are six with padding.
  constexpr uint64_t kBytes = 6 * TinyModel::kIn * sizeof(float);
  ASSERT_EQ(steps.size(), 2u);
  for (const std::vector<CollectiveCount> &step : steps) {
    ASSERT_EQ(step.size(), 3u);
    EXPECT_EQ(step[0].kind, "all_gather");
    EXPECT_EQ(step[0].group, "dp_shard");
    EXPECT_EQ(step[0].bytes, step[0].count * kBytes);
    EXPECT_EQ(step[1].kind, "metrics");
    EXPECT_EQ(step[1].count, 1u);
    EXPECT_EQ(step[2].kind, "reduce_scatter");
    EXPECT_EQ(step[2].count, 1u);
    EXPECT_EQ(step[2].bytes, kBytes);
  }
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

TEST(DataTest, RanksReadTheirRowsAndGoRoundTheFile) {
  TemporaryFolder folder;
  TinyModel model = make(2, Optimizer::sgd);
  model.write(folder.path());
  // Seven rows: the third batch goes past the end.
  constexpr int kRows = 7;
  std::vector<float> x, y;
  for (int i = 0; i < kRows * TinyModel::kIn; ++i)
    x.push_back(0.1f * static_cast<float>(i % 13));
  for (int i = 0; i < kRows * TinyModel::kOut; ++i)
    y.push_back(0.05f * static_cast<float>(i % 17));
  writeTensors(
      folder.path() + "/data.safetensors",
      {{"x", {kRows, TinyModel::kIn}, x}, {"y", {kRows, TinyModel::kOut}, y}});
  LaunchOptions options;
  options.artifact = folder.path() + "/step.fsdp";
  options.session.dataPath = folder.path() + "/data.safetensors";
  Outcome outcome = run(options, folder.path(), 5);

  TinyReference reference(model);
  int row = 0;
  for (const StepResult &result : outcome.steps) {
    std::vector<float> stepX, stepY;
    for (int i = 0; i < 2 * TinyModel::kBatch; ++i, row = (row + 1) % kRows) {
      stepX.insert(stepX.end(), x.begin() + row * TinyModel::kIn,
                   x.begin() + (row + 1) * TinyModel::kIn);
      stepY.insert(stepY.end(), y.begin() + row * TinyModel::kOut,
                   y.begin() + (row + 1) * TinyModel::kOut);
    }
    reference.step(stepX, stepY);
    EXPECT_NEAR(*result.loss, reference.loss, 1e-5);
  }
}

TEST(DataTest, InputsCanBeSet) {
  TemporaryFolder folder;
  TinyModel model = make(2, Optimizer::sgd);
  model.write(folder.path());
  std::vector<float> x(TinyModel::kBatch * TinyModel::kIn, 0.5f);
  LaunchOptions options;
  options.artifact = folder.path() + "/step.fsdp";
  options.session.dataPath = "sample";
  double loss = 0;
  launch(options, [&](Session &session) {
    session.setInput("x", std::as_bytes(std::span(x)));
    StepResult result = session.step();
    if (session.rank() == 0)
      loss = *result.loss;
  });
  TinyReference reference(model);
  reference.step(repeat(x, 2), repeat(TinyModel::sampleY(), 2));
  EXPECT_NEAR(loss, reference.loss, 1e-6);
}

TEST(DataTest, WithoutDataEveryInputIsSet) {
  TemporaryFolder folder;
  make(2, Optimizer::sgd).write(folder.path());
  LaunchOptions options;
  options.artifact = folder.path() + "/step.fsdp";
  auto expectRefused = [&](ErrorId id, const std::string &text, bool setsX) {
    try {
      launch(options, [&](Session &session) {
        std::vector<float> x(TinyModel::kBatch * TinyModel::kIn);
        if (setsX)
          session.setInput("x", std::as_bytes(std::span(x)));
        session.step();
      });
      FAIL() << "was not refused";
    } catch (const Error &error) {
      EXPECT_EQ(error.id(), id) << error.format();
      EXPECT_THAT(error.what(), testing::HasSubstr(text));
    }
  };
  expectRefused(ErrorId::DataNotNamed, "--data=sample", false);
  expectRefused(ErrorId::DataMissing,
                "input 'y' has no data: it was given "
                "nothing",
                true);
  launch(options, [](Session &session) {
    std::vector<float> x(TinyModel::kBatch * TinyModel::kIn);
    std::vector<float> y(TinyModel::kBatch * TinyModel::kOut);
    session.setInput("x", std::as_bytes(std::span(x)));
    session.setInput("y", std::as_bytes(std::span(y)));
    EXPECT_TRUE(session.step().loss);
  });
}

/// What a call refuses leaves nothing behind: the next step is as if it had not
/// been made.
TEST(DataTest, ARefusedInputLeavesNoTrace) {
  TemporaryFolder folder;
  make(2, Optimizer::adamw).write(folder.path());
  LaunchOptions options;
  options.artifact = folder.path() + "/step.fsdp";
  options.session.dataPath = "sample";
  auto train = [&](bool fails) {
    std::vector<double> losses;
    launch(options, [&](Session &session) {
      for (int i = 0; i < 3; ++i) {
        std::vector<float> few(1);
        if (fails) {
          EXPECT_THROW(session.setInput("x", std::as_bytes(std::span(few))),
                       Error);
          EXPECT_THROW(session.setInput("z", std::as_bytes(std::span(few))),
                       Error);
        }
        StepResult result = session.step();
        if (session.rank() == 0)
          losses.push_back(*result.loss);
      }
    });
    return losses;
  };
  EXPECT_EQ(train(true), train(false));
}

TEST(OutputsTest, AreHandedOutByName) {
  TemporaryFolder folder;
  TinyModel model = make(3, Optimizer::sgd);
  model.keepsPrediction = true;
  model.write(folder.path());
  LaunchOptions options;
  options.artifact = folder.path() + "/step.fsdp";
  options.session.dataPath = "sample";
  launch(options, [&](Session &session) {
    EXPECT_TRUE(session.isTraining());
    ASSERT_EQ(session.outputs().size(), 1u);
    const OutputTensor &output = session.output("prediction");
    EXPECT_EQ(output.dtype, "f32");
    EXPECT_THAT(output.shape, ElementsAre(TinyModel::kBatch, TinyModel::kOut));
    ASSERT_EQ(output.bytes.size(), 4u * TinyModel::kBatch * TinyModel::kOut);
    TinyReference reference(model);
    std::vector<float> x = TinyModel::sampleX();
    for (int step = 0; step < 2; ++step) {
      session.step();
      for (int64_t row = 0; row < TinyModel::kBatch; ++row)
        for (int64_t out = 0; out < TinyModel::kOut; ++out) {
          double expected = 0;
          for (int64_t in = 0; in < TinyModel::kIn; ++in)
            expected += reference.weight[out * TinyModel::kIn + in] *
                        x[row * TinyModel::kIn + in];
          float found;
          std::memcpy(&found, &output.bytes[4 * (row * TinyModel::kOut + out)],
                      4);
          EXPECT_NEAR(found, expected, 1e-5);
        }
      reference.step(repeat(x, 3), repeat(TinyModel::sampleY(), 3));
    }
    try {
      session.output("logits");
      ADD_FAILURE() << "an output that is not kept was handed out";
    } catch (const Error &error) {
      EXPECT_EQ(error.id(), ErrorId::OutputNotKept);
      EXPECT_THAT(error.what(), testing::HasSubstr("but 'prediction'"));
    }
  });
}

TEST(OutputsTest, MustBeContiguous) {
  TinyModel model = make(1, Optimizer::sgd);
  model.keepsPrediction = model.isTransposed = true;
  TemporaryFolder folder;
  try {
    model.write(folder.path());
    ADD_FAILURE() << "an output that is not contiguous was accepted";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::ArtifactCorrupted);
    EXPECT_THAT(error.what(),
                testing::HasSubstr("gives out 'prediction', which is not"));
  }
}

//===----------------------------------------------------------------------===//
// The loop of fsdp-run
//===----------------------------------------------------------------------===//

TEST(LoopTest, WritesOneLineAStep) {
  TemporaryFolder folder;
  make(3, Optimizer::adamw).write(folder.path());
  LaunchOptions options;
  options.artifact = folder.path() + "/step.fsdp";
  options.session.dataPath = "sample";
  TrainOptions training;
  options.session.steps = 4;
  training.metricsPath = folder.path() + "/metrics.jsonl";
  train(options, training);
  std::ifstream stream(training.metricsPath);
  std::string line;
  for (int step = 0; step < 4; ++step) {
    ASSERT_TRUE(std::getline(stream, line));
    EXPECT_THAT(line, testing::StartsWith("{\"step\":" + std::to_string(step) +
                                          ",\"loss\":"));
    EXPECT_THAT(line, testing::HasSubstr("\"lr\":0.1,"));
    EXPECT_THAT(line, testing::ContainsRegex(
                          "\"rank_peak_rss_bytes\":\\[[0-9]+,[0-9]+,[0-9]+]"));
  }
  EXPECT_FALSE(std::getline(stream, line));
}

TEST(LoopTest, DryRunPlaysOneOfManyRanks) {
  TemporaryFolder folder;
  make(64, Optimizer::adamw).write(folder.path());
  LaunchOptions options;
  options.artifact = folder.path() + "/step.fsdp";
  options.session.steps = 2;
  testing::internal::CaptureStdout();
  dryRun(options);
  std::string text = testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, testing::HasSubstr("for 64 ranks"));
  // 64 ranks times one row of 12 bytes.
  EXPECT_THAT(text, testing::ContainsRegex("all_gather +net +1 x +768 B"));
  EXPECT_THAT(text, testing::HasSubstr("executed 2 steps"));
}

TEST(LoopTest, DryRunNeedsNeitherDataNorSample) {
  TemporaryFolder folder;
  TinyModel model = make(4, Optimizer::adamw);
  model.hasSample = false;
  model.write(folder.path());
  LaunchOptions options;
  options.artifact = folder.path() + "/step.fsdp";
  options.session.steps = 1;
  testing::internal::CaptureStdout();
  dryRun(options);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              testing::HasSubstr("executed 1 steps"));
}

} // namespace
