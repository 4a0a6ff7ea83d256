//===- Comparison.cpp - A prediction beside a measurement -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/Comparison.h"

#include "plan/Activities.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace fsdp;

double fsdp::getFlight(const PredictedTransfer &transfer) {
  // One that nothing waits for is over when it is.
  double seen = std::isfinite(transfer.asked)
                    ? std::max(transfer.end, transfer.asked)
                    : transfer.end;
  return seen - transfer.given;
}

namespace {

class Sums {
public:
  Sums(const plan::PlanT &plan, Comparison &result)
      : plan(plan), result(result) {}

  void add(const PredictedProgram &predicted, const ProfiledProgram *measured);

  std::map<std::string, SecondsPair> operators;

private:
  const plan::PlanT &plan;
  Comparison &result;
};

} // namespace

void Sums::add(const PredictedProgram &predicted,
               const ProfiledProgram *measured) {
  std::vector<Activity> activities =
      describeActivities(plan, *plan.programs[predicted.program]);
  double runs = predicted.runs;
  std::vector<WorkKind> kinds(activities.size(), WorkKind::none);
  for (const PredictedKernel &kernel : predicted.kernels) {
    kinds[kernel.instruction] = kernel.kind;
    double seconds = runs * (kernel.end - kernel.begin);
    SecondsPair &kind = result.kinds[size_t(kernel.kind)];
    SecondsPair &name = operators[activities[kernel.instruction].name];
    kind.predicted += seconds;
    kind.count += predicted.runs;
    name.predicted += seconds;
    name.count += predicted.runs;
  }
  for (const PredictedTransfer &transfer : predicted.transfers) {
    result.exposed.predicted += runs * transfer.exposed();
    result.exposed.count += predicted.runs;
  }
  result.compute.predicted += runs * predicted.compute;
  result.compute.count += predicted.runs * predicted.kernels.size();
  if (!measured)
    return;
  for (const ProfiledKernel &kernel : measured->kernels) {
    double seconds = runs * kernel.seconds;
    SecondsPair &kind = result.kinds[size_t(kinds[kernel.instruction])];
    SecondsPair &name = operators[activities[kernel.instruction].name];
    kind.measured += seconds;
    name.measured += seconds;
    result.compute.measured += seconds;
    if (kinds[kernel.instruction] == WorkKind::none) {
      kind.count += predicted.runs;
      name.count += predicted.runs;
    }
  }
  for (const ProfiledTransfer &transfer : measured->transfers) {
    result.exposed.measured += runs * transfer.exposed;
    result.starting += runs * transfer.starting;
  }
  result.inputs += runs * measured->inputs;
}

Comparison fsdp::compare(const plan::PlanT &plan, const Prediction &prediction,
                         const Profile &profile) {
  Comparison result;
  result.step = {prediction.seconds, profile.seconds, 1};
  Sums sums(plan, result);
  for (const PredictedProgram &program : prediction.programs)
    sums.add(program, profile.findProgram(program.program));
  result.operators.assign(sums.operators.begin(), sums.operators.end());
  std::ranges::stable_sort(result.operators, [](const auto &a, const auto &b) {
    return a.second.measured > b.second.measured;
  });
  return result;
}
