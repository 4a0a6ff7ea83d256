//===- AdapterStarts.h - Adapters that begin with their bases ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_STATES_ADAPTERSTARTS_H
#define FSDP_RUNTIME_STATES_ADAPTERSTARTS_H

#include "plan/plan_generated.h"
#include "runtime/comm/Communicator.h"
#include "runtime/states/MergedDelta.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>

namespace fsdp {

/// First values that are functions of an adapter's base (InitKind from pissa
/// on), whole on each rank, and what bases then begin without.
class AdapterStarts {
public:
  /// A state's whole tensor of the model, without what this class knows.
  using ReadWhole = std::function<at::Tensor(const plan::StateT &)>;
  /// Whether what is read is what the state's codes stand for.
  using IsCoded = std::function<bool(const plan::StateT &)>;

  /// Collective: each rank computes its share of the adapters that have a state
  /// that `isWanted`, the same on all ranks. Throws fsdp::Error.
  AdapterStarts(const plan::PlanT &plan, Fabric &fabric,
                const std::function<bool(const plan::StateT &)> &isWanted,
                const ReadWhole &read, const IsCoded &isCoded);

  /// The whole tensor that the state begins with; null if this is not for here.
  const at::Tensor *find(const plan::StateT &state) const;

  /// What is taken from a base as it is read; null if nothing is.
  const MergedDelta *findTaken(const plan::StateT &base) const;

private:
  void compute(const plan::PlanT &plan, const plan::AdapterT &adapter,
               const ReadWhole &read, const IsCoded &isCoded);
  void share(const plan::PlanT &plan, Fabric &fabric,
             const std::vector<const plan::AdapterT *> &adapters);

  std::map<const plan::StateT *, at::Tensor> values;
  std::map<const plan::StateT *, MergedDelta> taken;
};

/// Whether any state's first value is one of these.
bool needsAdapterStarts(const plan::PlanT &plan);

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_ADAPTERSTARTS_H
