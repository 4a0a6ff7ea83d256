//===- ArtifactTest.cpp - Artifacts: round trip, damage, refusals ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Print.h"
#include "plan/Reader.h"
#include "plan/Version.h"
#include "plan/Writer.h"
#include "support/Error.h"
#include "support/Hash.h"
#include "test/unit/plan/KernelPlan.h"
#include "test/unit/plan/RawArtifact.h"
#include "test/unit/plan/SamplePlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace fsdp;
using testing::HasSubstr;

namespace {

ErrorId refusal(std::string_view bytes, std::string *message = nullptr) {
  try {
    PlanFile::fromBytes(bytes, "step.fsdp");
  } catch (const Error &error) {
    if (message)
      *message = error.what();
    return error.id();
  }
  ADD_FAILURE() << "was read";
  return ErrorId::BadUsage;
}

TEST(Artifact, RoundTrip) {
  plan::PlanT plan = test::samplePlan();
  std::string bytes = serializePlan(plan);
  PlanFile file = PlanFile::fromBytes(bytes, "step.fsdp");
  EXPECT_EQ(printPlan(file.plan()), printPlan(plan));
  EXPECT_EQ(serializePlan(file.plan()), bytes);
  EXPECT_EQ(file.hash(), hash128(test::payloadOf(plan)));
  EXPECT_EQ(file.formatVersion(), kFormatVersion);
}

TEST(Artifact, FingerprintSeesOptionsAndCompiler) {
  auto hashOf = [](const plan::PlanT &plan) {
    return PlanFile::fromBytes(serializePlan(plan), "a").hash();
  };
  plan::PlanT plan = test::samplePlan(), other = plan;
  EXPECT_EQ(hashOf(plan), hashOf(other));
  other.training->lr = 2e-3;
  EXPECT_NE(hashOf(plan), hashOf(other));
  other = plan;
  other.compiler = "0.2.0";
  EXPECT_NE(hashOf(plan), hashOf(other));
  other = plan;
  other.mesh[0]->size = 4;
  EXPECT_NE(hashOf(plan), hashOf(other));
}

TEST(Artifact, PrintsEverything) {
  std::string text = printArtifact(
      PlanFile::fromBytes(serializePlan(test::samplePlan()), "a"));
  for (
      const char *part :
      {"format 18",
       "norm of order 2",
       "learning rates \"optimizer/lr\": cosine, warm-up 2, total of the run, "
       "min_lr 1e-04",
       "model \"model.pt2\"",
       "mesh <shard = 2>",
       "parameter \"w\" : f32[3, 2] dim 0 over shard @0 16 bytes bucket \"fc\" "
       "also \"tied\" source \"data/weights/weight_0\" at 64 : 24",
       "argument %5 : f32[4, 3] @1024 input \"x\"",
       "literal %6 : f32[] wrapped",
       "future0 = all_gather.start \"fc\"(%0) over shard on gather",
       "%7 : f32[3, 2] @1152 = wait future0",
       "%8 : f32[2, 3] strides [1, 2] in %7 = aten::t(%7)",
       "%9 : f32[] @1280, _, %10 : f32[3, 2] @1408 = aten::add.Tensor([%8, "
       "%5], "
       "[none, %6], none, 7, 0.5, true, \"mean\", [1, 2], [1.5, 2], "
       "[false, true], bf16, device, strided, preserve, 1 + 2i)",
       "free %7",
       "zero_padding %10 over shard",
       "reduce_scatter.start avg \"fc\"(%10) over shard on reduce of [\"w\"]",
       "all_reduce.start avg \"metrics\"(%9) over shard for metric on reduce",
       "shard %10 over shard",
       "adamw params(%0) grads(%16) exp_avgs(%1) exp_avg_sqs(%2) step %3 lr %4 "
       "grad_scale %12 betas(0.9, 0.95) eps 1e-08 weight_decay 0",
       "sgd params(%0)",
       "copy %12 to %3",
       "# fc (model.py:7)",
       "result %12 output \"loss\"",
       "result %0 state \"w\""})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(Artifact, OtherFilesAreRefused) {
  EXPECT_EQ(refusal(""), ErrorId::NotAnArtifact);
  EXPECT_EQ(refusal("PK\3\4 and so on"), ErrorId::NotAnArtifact);
}

TEST(Artifact, OtherVersionsAreRefused) {
  std::string payload = test::payloadOf(test::samplePlan()), message;
  EXPECT_EQ(refusal(test::wrapPayload(payload, kFormatVersion + 1), &message),
            ErrorId::ArtifactNewer);
  EXPECT_THAT(message,
              HasSubstr("format version " + std::to_string(kFormatVersion + 1) +
                        "; this build reads " +
                        std::to_string(kOldestFormatVersion) + " to " +
                        std::to_string(kFormatVersion) + "; "));
  EXPECT_EQ(
      refusal(test::wrapPayload(payload, kOldestFormatVersion - 1), &message),
      ErrorId::ArtifactOlder);
  EXPECT_THAT(message, HasSubstr("compile the model again"));
}

TEST(Artifact, EveryTruncationIsRefused) {
  std::string bytes = serializePlan(test::samplePlan());
  for (size_t length = 0; length < bytes.size(); ++length) {
    ErrorId id = refusal(std::string_view(bytes).substr(0, length));
    EXPECT_TRUE(id == ErrorId::ArtifactCorrupted ||
                id == ErrorId::NotAnArtifact)
        << "at " << length;
  }
}

// A flipped byte of the file is found by the hash, or lies where nothing is
// read (padding).
TEST(Artifact, EveryFlippedByteIsRefusedOrHarmless) {
  plan::PlanT plan = test::samplePlan();
  std::string bytes = serializePlan(plan), text = printPlan(plan);
  size_t harmless = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    for (uint8_t mask : {0x01, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      try {
        PlanFile file = PlanFile::fromBytes(damaged, "step.fsdp");
        EXPECT_EQ(printPlan(file.plan()), text) << "at " << i;
        ++harmless;
      } catch (const Error &error) {
        EXPECT_EQ(error.exitStatus(), 1);
      }
    }
  EXPECT_LT(harmless, 300u);
}

TEST(Artifact, HandsOutCodeOfItsKernelsOnlyIfItIsTrusted) {
  plan::PlanT plan = test::samplePlan();
  test::addKernel(plan);
  auto code = std::make_unique<plan::KernelCodeT>();
  code->target = "x86-64-v3";
  code->code = {0xc3};
  plan.kernel_code.push_back(std::move(code));
  std::string bytes = serializePlan(plan);
  for (Trust trust : {Trust::stranger, Trust::own}) {
    PlanFile file = PlanFile::fromBytes(bytes, "step.fsdp", trust);
    ASSERT_EQ(file.plan().kernel_code.size(), 1u);
    EXPECT_EQ(file.plan().kernel_code[0]->code.size(),
              trust == Trust::own ? 1u : 0u);
    EXPECT_THAT(printPlan(file.plan()),
                HasSubstr("kernel 0 with code for x86-64-v3\n"));
  }
}

// Damage under a right hash, as a faulty or hostile writer would make it: the
// reader must refuse it or hand out a plan that its own verifier accepts.
TEST(Artifact, EveryFlippedByteOfThePayloadIsRefusedOrValid) {
  std::string payload = test::payloadOf(test::samplePlan());
  size_t refused = 0;
  for (size_t i = 0; i < payload.size(); ++i)
    for (uint8_t mask : {0x01, 0x02, 0x10, 0x80, 0xff}) {
      std::string damaged = payload;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      try {
        PlanFile file = PlanFile::fromBytes(
            test::wrapPayload(damaged, kFormatVersion), "step.fsdp");
        EXPECT_FALSE(printArtifact(file).empty());
        EXPECT_NO_THROW(serializePlan(file.plan()));
      } catch (const Error &error) {
        // Some bytes are the names of operators.
        EXPECT_TRUE(error.id() == ErrorId::ArtifactCorrupted ||
                    error.id() == ErrorId::ArtifactNotTrusted)
            << error.what();
        ++refused;
      }
    }
  EXPECT_GT(refused, payload.size());
}

TEST(Artifact, WritesWhollyOrNotAtAll) {
  namespace fs = std::filesystem;
  fs::path folder = fs::path(testing::TempDir()) / "fsdp-artifact-test";
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::string path = folder / "step.fsdp";
  writePlan(test::samplePlan(), path);
  EXPECT_EQ(PlanFile::read(path).hash(),
            hash128(test::payloadOf(test::samplePlan())));

  plan::PlanT bad = test::samplePlan();
  bad.states[0]->group = 9;
  EXPECT_THROW(writePlan(bad, folder / "bad.fsdp"), Error);
  EXPECT_THROW(writePlan(test::samplePlan(), folder / "none" / "a.fsdp"),
               Error);
  size_t files =
      std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  EXPECT_EQ(files, 1u);
  fs::remove_all(folder);
}

TEST(Artifact, MissingFile) {
  try {
    PlanFile::read("/nonexistent/step.fsdp");
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), ErrorId::FileNotReadable);
  }
}

} // namespace
