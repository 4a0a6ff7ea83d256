//===- TwoLayers.cpp - A step of two layers -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/decide/TwoLayers.h"

using namespace fsdp;
using namespace fsdp::plan;
using fsdp::test::SmallPlan;

SmallPlan fsdp::test::makeTwoLayers() {
  SmallPlan small;
  PlanT &plan = small.plan;
  plan.locations = {"layers.0 (model.py:1)", "layers.1 (model.py:2)"};
  plan.states.front()->bucket = "layers.0";
  plan.states.push_back(std::make_unique<StateT>());
  plan.states.back()->bucket = "layers.1";
  plan.memory->peak = 64 << 20;

  auto in = [&](int layer) { small.program().instructions.back()->at = layer; };
  uint32_t first = small.slot(kActivation), second = small.slot(kActivation);
  uint32_t loss = small.slot(64);

  uint32_t gather0 = small.gather(kGather, "layers.0");
  small.wait(gather0);
  uint32_t gather1 = small.gather(kGather, "layers.1");
  small.kernel(kForward);
  in(0);
  small.make(first);
  in(0);
  small.wait(gather1);
  small.use(first);
  in(1);
  small.kernel(kForward);
  in(1);
  small.make(second);
  in(1);
  small.make(loss);
  in(1);
  uint32_t again1 = small.gather(kGather, "layers.1");
  small.wait(again1);
  uint32_t again0 = small.gather(kGather, "layers.0");
  small.kernel(kBackward);
  in(1);
  small.use(second);
  in(1);
  small.wait(again0);
  small.kernel(kBackward);
  in(0);
  small.use(first);
  in(0);

  auto result = std::make_unique<BindingT>();
  result->value = loss;
  result->output = "loss";
  small.program().results.push_back(std::move(result));
  return small;
}
