//===- RefusalTest.cpp - LibTorch's words for tensors without data --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The messages come from LibTorch itself where it can be made to say them: a
// version that words them differently fails here.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/joint/Refusal.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_int_mm.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>

#include <gtest/gtest.h>

#include <functional>

using namespace fsdp::capture;
using Reason = Refusal::Reason;

static Refusal explain(const std::function<void(const at::Tensor &)> &run,
                       at::ScalarType dtype = at::kFloat) {
  at::Tensor meta = at::empty({32, 32}, at::device(at::kMeta).dtype(dtype));
  try {
    run(meta);
  } catch (const c10::Error &error) {
    std::string text = error.what_without_backtrace();
    return explainRefusal(text.substr(0, text.find('\n')));
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

TEST(Refusal, NoKernelForMeta) {
  Refusal refusal =
      explain([](const at::Tensor &t) { at::_int_mm(t, t); }, at::kChar);
  EXPECT_EQ(refusal.reason, Reason::NoShapeRule);
  EXPECT_EQ(refusal.op, "aten::_int_mm");
}

TEST(Refusal, ReadsAValue) {
  EXPECT_EQ(explain([](const at::Tensor &t) { t[0][0].item(); }).reason,
            Reason::NeedsData);
  EXPECT_EQ(explain([](const at::Tensor &t) { t.cpu(); }).reason,
            Reason::NeedsData);
  EXPECT_EQ(explain([](const at::Tensor &t) { t[0][0].is_nonzero(); }).reason,
            Reason::NeedsData);
  EXPECT_EQ(
      explain([](const at::Tensor &t) { at::empty({32, 32}).equal(t); }).reason,
      Reason::NeedsData);
}

TEST(Refusal, KernelOfAnotherDevice) {
  EXPECT_EQ(explain([](const at::Tensor &t) { t.data_ptr<float>(); }).reason,
            Reason::NoShapeRule);
}

TEST(Refusal, WrongArguments) {
  EXPECT_EQ(
      explain([](const at::Tensor &t) { at::mm(t, t.slice(0, 0, 3)); }).reason,
      Reason::Arguments);
}

TEST(Refusal, OwnKernelsSayWhatToDo) {
  std::string message = "linalg_lstsq with driver 'gelss': whether it gives "
                        "residuals depends on data; use the driver 'gels'";
  Refusal refusal = explainRefusal(message);
  EXPECT_EQ(refusal.reason, Reason::NeedsData);
  EXPECT_EQ(refusal.advice, message);
}
