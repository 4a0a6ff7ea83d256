//===- KernelCode.cpp - Code of kernels in an artifact --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/compile/KernelCode.h"

#include "kernels/CodeLibrary.h"
#include "kernels/Library.h"
#include "support/Error.h"
#include "tools/fsdp-opt/input/Progress.h"

using namespace fsdp;

void fsdp::addKernelCode(plan::PlanT &plan,
                         llvm::ArrayRef<std::string> targets) {
  if (targets.empty())
    return;
  if (plan.kernels.empty())
    throw Error(ErrorId::KernelsUnusable,
                "--kernel-code has nothing to make code of: the program has no "
                "kernels; compile it with fsdp_config: {kernels: on}");
  Progress::enter("making code of kernels");
  for (uint32_t kernel = 0; kernel < plan.kernels.size(); ++kernel) {
    std::string program = serialize(*plan.kernels[kernel]);
    for (const std::string &target : targets) {
      auto made = std::make_unique<plan::KernelCodeT>();
      made->kernel = kernel;
      made->target = target;
      made->emitter = kEmitterVersion;
      std::string code = makeCode(program, target);
      made->code.assign(code.begin(), code.end());
      plan.kernel_code.push_back(std::move(made));
    }
  }
}
