//===- ErrorsTest.cpp - What a run refuses --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Reader.h"
#include "plan/Writer.h"
#include "runtime/train/Train.h"
#include "support/Error.h"
#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/TinyModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

using namespace fsdp;
using namespace fsdp::test;
using testing::HasSubstr;

namespace {

class ErrorsTest : public testing::Test {
protected:
  void SetUp() override {
    model.worldSize = 2;
    model.write(folder.path());
    options.artifact = folder.path() + "/step.fsdp";
    options.session.dataPath = "sample";
    options.session.steps = 2;
  }

  /// Compiles again with `change` made to the plan.
  void rewrite(const std::function<void(plan::PlanT &)> &change) {
    PlanFile file = PlanFile::read(options.artifact);
    plan::PlanT plan = file.plan();
    change(plan);
    writePlan(plan, options.artifact);
  }

  void expectRefused(ErrorId id, const std::string &text) {
    try {
      train(options, training);
      FAIL() << "was not refused";
    } catch (const Error &error) {
      EXPECT_EQ(error.id(), id) << error.format();
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  }

  void data(const std::vector<FloatTensor> &tensors) {
    options.session.dataPath = folder.path() + "/data.safetensors";
    writeTensors(options.session.dataPath, tensors);
  }

  static FloatTensor zeros(const std::string &name,
                           const std::vector<int64_t> &shape) {
    size_t count = 1;
    for (int64_t size : shape)
      count *= static_cast<size_t>(size);
    return {name, shape, std::vector<float>(count)};
  }

  TemporaryFolder folder;
  TinyModel model;
  LaunchOptions options;
  TrainOptions training;
};

TEST_F(ErrorsTest, MissingTensorWithoutSample) {
  model.hasSample = false;
  model.write(folder.path());
  expectRefused(ErrorId::DataMissing,
                "input 'x' has no data: the model file holds no sample");
  data({zeros("x", {4, 3})});
  expectRefused(ErrorId::DataMissing, "has nothing for it");
}

TEST_F(ErrorsTest, NoDataIsNamed) {
  options.session.dataPath.clear();
  expectRefused(ErrorId::DataNotNamed, "--data=sample");
}

TEST_F(ErrorsTest, TensorThatNoInputTakes) {
  data({zeros("x", {4, 3}), zeros("Y2", {4, 5})});
  expectRefused(ErrorId::DataNotKnown, "tensor 'Y2' of '");
  data({zeros("x", {4, 3}), zeros("y", {4, 5}), zeros("extra", {1})});
  expectRefused(ErrorId::DataNotKnown, "tensor 'extra' of '");
  options.session.dataOptions = "ignore=extra";
  train(options, training);
}

TEST_F(ErrorsTest, RowsOfOneTensorAlone) {
  data({zeros("x", {8, 3}), zeros("y", {4, 5})});
  expectRefused(ErrorId::DataShape, "has 8 rows for input 'x' and 4 for 'y'");
  options.session.dataOptions = "repeat=y";
  train(options, training);
}

TEST_F(ErrorsTest, WrongShape) {
  data({zeros("x", {4, 2}), zeros("y", {4, 5})});
  expectRefused(ErrorId::DataShape, "has shape [4, 2]; expected rows of shape "
                                    "[3]");
  data({zeros("x", {0, 3}), zeros("y", {4, 5})});
  expectRefused(ErrorId::DataShape, "has no rows");
}

TEST_F(ErrorsTest, WrongType) {
  data({zeros("x", {4, 3}), zeros("y", {4, 5})});
  rewrite([](plan::PlanT &plan) {
    plan.inputs[0]->dtype = plan::DType::i32;
    for (const auto &argument : plan.programs[0]->arguments)
      if (argument->input == 0)
        plan.programs[0]->values[argument->value]->dtype = plan::DType::i32;
  });
  expectRefused(ErrorId::DataType, "has element type f32; expected i32");
}

TEST_F(ErrorsTest, ModelFileIsGone) {
  std::filesystem::remove(folder.path() + "/model.pt2");
  expectRefused(ErrorId::FileNotReadable, "--model=PATH");
}

TEST_F(ErrorsTest, ModelFileWasMoved) {
  std::filesystem::rename(folder.path() + "/model.pt2",
                          folder.path() + "/other.pt2");
  options.session.modelPath = folder.path() + "/other.pt2";
  train(options, training);
}

TEST_F(ErrorsTest, ModelFileChanged) {
  std::ofstream(folder.path() + "/model.pt2", std::ios::app) << "more";
  expectRefused(ErrorId::ModelFileChanged, "bytes, found");
}

TEST_F(ErrorsTest, ModelFileHasOtherEntries) {
  rewrite(
      [](plan::PlanT &plan) { plan.model->directory = "0123456789abcdef"; });
  expectRefused(ErrorId::ModelFileChanged, "0123456789abcdef");
}

TEST_F(ErrorsTest, OtherLibTorch) {
  rewrite([](plan::PlanT &plan) { plan.model->torch = "2.10.1"; });
  expectRefused(ErrorId::LibTorchMismatch, "LibTorch 2.10.1");
}

TEST_F(ErrorsTest, ResultOfAnotherShape) {
  // The squares of the gradient: [3, 3] on each rank.
  rewrite([](plan::PlanT &plan) {
    plan::ProgramT &program = *plan.programs[0];
    for (const auto &instruction : program.instructions) {
      const plan::CallT *call = instruction->body.AsCall();
      if (call && plan.operators[call->op]->overload == "Tensor")
        program.values[call->results[0]]->shape = {9};
    }
  });
  expectRefused(ErrorId::ResultUnplanned,
                "aten::mul.Tensor of net (model.py:7): the plan expects result "
                "0 to be Float[9], found Float[3, 3]");
}

TEST_F(ErrorsTest, FailingKernelNamesItsModule) {
  rewrite([](plan::PlanT &plan) {
    auto &values = plan.programs[0]->values;
    for (const auto &value : values)
      if (value->shape == std::vector<int64_t>{2, 3})
        value->shape = {3, 2};
    plan.inputs[0]->shape = {3, 2};
  });
  expectRefused(ErrorId::KernelFailed, "aten::mm of net (model.py:7): mat1");
}

TEST_F(ErrorsTest, UnwritableExportIsFoundBeforeTraining) {
  options.session.steps = 1000000000;
  training.exportPath = folder.path() + "/none/final.safetensors";
  expectRefused(ErrorId::FileNotWritable, "none");
}

TEST_F(ErrorsTest, UnwritableMetrics) {
  training.metricsPath = folder.path() + "/none/metrics.jsonl";
  expectRefused(ErrorId::FileNotWritable, "metrics.jsonl");
}

TEST_F(ErrorsTest, FullDisk) {
  if (!std::filesystem::exists("/dev/full"))
    GTEST_SKIP() << "this system has no /dev/full";
  training.metricsPath = "/dev/full";
  expectRefused(ErrorId::FileNotWritable, "No space left");
}

TEST_F(ErrorsTest, UnsupportedPlans) {
  rewrite([](plan::PlanT &plan) { plan.training->device = "cuda"; });
  expectRefused(ErrorId::RuntimeUnsupported, "device 'cuda'");
}

TEST_F(ErrorsTest, OneRankFailsAndTheCauseIsReported) {
  options.deadline = std::chrono::seconds(60);
  try {
    launch(options, [](Session &session) {
      if (session.rank() == 1)
        throw Error(ErrorId::OutOfMemory, "the cause");
      for (int i = 0; i < 3; ++i)
        session.step();
    });
    FAIL() << "did not fail";
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::OutOfMemory) << error.format();
  }
}

TEST_F(ErrorsTest, ElasticErrorFileNamesTheCause) {
  std::string path = folder.path() + "/error.json";
  setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), /*overwrite=*/1);
  options.session.modelPath = "nowhere.pt2";
  expectRefused(ErrorId::FileNotReadable, "nowhere.pt2");
  unsetenv("TORCHELASTIC_ERROR_FILE");
  std::ifstream stream(path);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_THAT(text, HasSubstr("error[fsdp-E001]: the model file"));
  EXPECT_THAT(text, HasSubstr("\"timestamp\":"));
}

} // namespace
