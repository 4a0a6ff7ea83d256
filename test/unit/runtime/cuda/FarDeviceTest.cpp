//===- FarDeviceTest.cpp - Sessions whose tensors are out of reach --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "FarDevice.h"

#include "runtime/device/Arenas.h"
#include "runtime/train/Checkpointer.h"
#include "runtime/weights/Safetensors.h"
#include "support/Error.h"
#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/TinyModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <mutex>

using namespace fsdp;
using namespace fsdp::test;
using testing::HasSubstr;

namespace {

/// What a run gives to people, by name.
struct Outcome {
  std::vector<StepResult> steps;
  std::map<std::string, std::string> weights;
  std::vector<std::string> predictions; ///< of rank 0, by step
};

std::string bytesOf(const OutputTensor &output) {
  return {reinterpret_cast<const char *>(output.bytes.data()),
          output.bytes.size()};
}

class FarDeviceTest : public testing::TestWithParam<int> {
protected:
  /// A body that trains, and writes down what it gives into `outcome`.
  auto trains(Outcome &outcome, int steps) {
    return [this, &outcome, steps](Session &session) {
      for (int i = 0; i < steps; ++i) {
        StepResult result = session.step();
        if (session.rank() != 0)
          continue;
        outcome.steps.push_back(result);
        if (!session.outputs().empty())
          outcome.predictions.push_back(bytesOf(session.outputs()[0]));
      }
      session.exportWeights(path());
    };
  }

  std::string path() const { return folder.path() + "/final.safetensors"; }

  void readWeights(Outcome &outcome) {
    SafetensorsFile file(path());
    for (const auto &[name, tensor] : file.tensors()) {
      size_t bytes = sizeof(float);
      for (int64_t size : tensor.shape)
        bytes *= static_cast<size_t>(size);
      outcome.weights[name] =
          std::string(reinterpret_cast<const char *>(tensor.data), bytes);
    }
  }

  Outcome near(int steps) {
    Outcome outcome;
    launch(options, trains(outcome, steps));
    readWeights(outcome);
    return outcome;
  }
  Outcome far(int steps) {
    Outcome outcome;
    EXPECT_EQ(launchFar(options, trains(outcome, steps)), "");
    readWeights(outcome);
    return outcome;
  }

  static void expectSame(const Outcome &a, const Outcome &b) {
    ASSERT_EQ(a.steps.size(), b.steps.size());
    for (size_t i = 0; i < a.steps.size(); ++i) {
      EXPECT_EQ(a.steps[i].loss, b.steps[i].loss) << i;
      EXPECT_EQ(a.steps[i].gradNorm, b.steps[i].gradNorm) << i;
      EXPECT_EQ(a.steps[i].unplannedBytes, b.steps[i].unplannedBytes) << i;
      ASSERT_EQ(a.steps[i].collectives.size(), b.steps[i].collectives.size());
      for (size_t j = 0; j < a.steps[i].collectives.size(); ++j)
        EXPECT_EQ(a.steps[i].collectives[j].bytes,
                  b.steps[i].collectives[j].bytes);
    }
    EXPECT_EQ(a.weights, b.weights);
    EXPECT_EQ(a.predictions, b.predictions);
  }

  void write(TinyModel model) {
    model.worldSize = GetParam();
    options = model.writeForThreads(folder.path());
  }

  TemporaryFolder folder;
  LaunchOptions options;
};

TEST_P(FarDeviceTest, GivesTheBitsOfTheHost) {
  for (Optimizer optimizer : {Optimizer::adamw, Optimizer::sgd}) {
    TinyModel model;
    model.optimizer = optimizer;
    model.keepsPrediction = true;
    write(model);
    expectSame(near(4), far(4));
  }
}

TEST_P(FarDeviceTest, GivesThemWithClippingAndPoison) {
  TinyModel model;
  model.in = 16; // on the host, threads share the weight
  model.maxGradNorm = 0.01;
  write(model);
  Outcome expected = near(3);
  options.session.poison = true;
  expectSame(expected, far(3));
}

TEST_P(FarDeviceTest, SetsInputs) {
  write({});
  auto body = [](std::vector<double> &losses) {
    return [&losses](Session &session) {
      std::vector<float> x(TinyModel::kBatch * TinyModel::kIn, 0.5f);
      for (int i = 0; i < 3; ++i) {
        x[0] = static_cast<float>(i);
        session.setInput("x", std::as_bytes(std::span<const float>(x)));
        StepResult result = session.step();
        if (session.rank() == 0)
          losses.push_back(*result.loss);
      }
    };
  };
  std::vector<double> expected, found;
  launch(options, body(expected));
  EXPECT_EQ(launchFar(options, body(found)), "");
  EXPECT_EQ(found, expected);
}

TEST_P(FarDeviceTest, CheckpointsGoThereAndBack) {
  write({});
  std::string saved = folder.path() + "/saved";
  Outcome whole = far(5), second;
  EXPECT_EQ(launchFar(options,
                      [&](Session &session) {
                        Checkpointer checkpointer(
                            session, {.folder = saved, .every = 2});
                        for (int i = 0; i < 3; ++i) {
                          session.step();
                          checkpointer.afterStep();
                        }
                        checkpointer.finish();
                      }),
            "");
  options.session.checkpointPath = saved;
  EXPECT_EQ(launchFar(options, trains(second, 2)), "");
  readWeights(second);
  EXPECT_EQ(second.weights, whole.weights);
  // And to the host.
  Outcome host;
  launch(options, trains(host, 2));
  readWeights(host);
  EXPECT_EQ(host.weights, whole.weights);
}

TEST_P(FarDeviceTest, ARanksErrorEndsAll) {
  write({});
  std::string error = launchFar(options, [](Session &session) {
    session.step();
    if (session.rank() == session.worldSize() - 1)
      throw Error(ErrorId::OutOfMemory, "the cause");
    for (int i = 0; i < 100; ++i)
      session.step();
  });
  EXPECT_THAT(error, HasSubstr("the cause"));
}

TEST_P(FarDeviceTest, TheStatesOfTheArenaAreNotForTheHost) {
  write({});
  EXPECT_EQ(launchFar(options,
                      [](Session &session) {
                        if (session.arenas().device().isHost())
                          throw std::runtime_error("it is");
                      }),
            "");
}

INSTANTIATE_TEST_SUITE_P(, FarDeviceTest, testing::Values(1, 2, 3),
                         [](const auto &info) {
                           return "ranks" + std::to_string(info.param);
                         });

} // namespace
