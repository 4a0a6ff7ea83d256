//===- NonFinitePolicy.h - What a NaN does to a run -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_SESSION_NONFINITEPOLICY_H
#define FSDP_RUNTIME_SESSION_NONFINITEPOLICY_H

#include "runtime/exec/NonFiniteTrace.h"
#include "runtime/session/Session.h"

#include <string>

namespace fsdp {

class Executor;

/// What a training session does about a loss or a norm of the gradients that is
/// a NaN or infinite. All ranks have the same two numbers, so that all do it.
class NonFinitePolicy {
public:
  /// Throws fsdp::Error (RuntimeUnsupported, BadUsage) if `options` ask for
  /// what the artifact has not.
  NonFinitePolicy(const plan::PlanT &plan, Fabric &fabric, bool isTraining,
                  const SessionOptions &options);

  /// Whether runs are to be traced, and `note` called after each.
  bool isTracing() const { return traces; }
  /// Keeps what the first run of a step says that left something not finite.
  void note(const plan::ProgramT &program, const Executor &executor,
            const NonFiniteTrace &trace);

  /// After each step: collective where its numbers are not finite. Throws
  /// fsdp::Error (NotFinite) if the run is to stop, or cannot go on.
  void judge(StepResult &result, const Arena &arena);

private:
  std::string describe(const plan::ProgramT &program, const Executor &executor,
                       const NonFiniteTrace::Origin &origin) const;
  std::string explain(uint64_t step);
  void checkBuffers(const std::string &what, const Arena &arena) const;
  bool isExpected(const StepResult &result) const;

  const plan::PlanT &plan;
  Fabric &fabric;
  plan::NonFinite policy;
  bool traces;
  /// Of the step that runs, on this rank: what began it.
  struct Cause {
    NonFiniteTrace::Origin::Kind kind;
    std::string text;
  };
  std::optional<Cause> cause;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_NONFINITEPOLICY_H
