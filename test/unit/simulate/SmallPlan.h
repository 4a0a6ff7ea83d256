//===- SmallPlan.h - Plans whose times follow on paper ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_SIMULATE_SMALLPLAN_H
#define FSDP_TEST_UNIT_SIMULATE_SMALLPLAN_H

#include "simulate/Cluster.h"

namespace fsdp::test {

/// A GPU whose memory and link move a byte in a nanosecond, on which nothing
/// else takes time: two ranks on each node.
Cluster plainCluster();

/// One program of a training step on two ranks, instruction by instruction. It
/// is no plan that the runtime would take.
class SmallPlan {
public:
  SmallPlan();

  plan::PlanT plan;

  /// Appends a program, to which all that follows belongs; the constructor has
  /// done so once.
  void begin(const char *name, plan::StepPart part = plan::StepPart::whole);

  /// A tensor of `bytes`, a multiple of 4, at an address.
  uint32_t slot(uint64_t bytes, uint64_t offset = 0);
  /// Another name of it.
  uint32_t view(uint32_t base);
  /// That lives from step to step.
  uint32_t state(uint64_t bytes);

  /// A copy among states that takes so long on `plainCluster`, alone.
  void kernel(double milliseconds);
  /// Makes a slot, in no time to speak of.
  void make(uint32_t value);
  /// Reads it.
  void use(uint32_t value);
  /// Makes one slot of another one.
  void copy(uint32_t from, uint32_t to);
  /// A collective that takes so long there, alone; returns its future.
  uint32_t gather(double milliseconds, const char *bucket = "layer",
                  plan::Stream stream = plan::Stream::gather);
  uint32_t reduce(double milliseconds, const char *bucket = "layer");
  uint32_t download(uint32_t value, uint32_t into);
  void wait(uint32_t future);

  plan::ProgramT &program() { return *plan.programs.back(); }

private:
  template <typename T>
  void add(T body);
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_SIMULATE_SMALLPLAN_H
