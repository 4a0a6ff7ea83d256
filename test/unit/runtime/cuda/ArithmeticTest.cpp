//===- ArithmeticTest.cpp - What LibTorch is told of its libraries --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Needs no GPU.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Workspaces.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <gtest/gtest.h>

using namespace fsdp;

namespace {

class CountWarnings : public c10::WarningHandler {
public:
  int count = 0;

private:
  void process(const c10::Warning &) override { ++count; }
};

TEST(CudaArithmetic, NothingIsLeftToMagmaAndNobodyIsWarned) {
  CountWarnings warnings;
  c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  useArithmetic(plan::PlanT());
  EXPECT_EQ(at::globalContext().linalgPreferredBackend(),
            at::LinalgBackend::Cusolver);
  EXPECT_EQ(warnings.count, 0);
}

} // namespace
