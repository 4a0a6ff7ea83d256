//===- SmallProfile.cpp - A profile as fsdp-run writes it -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/simulate/SmallProfile.h"

#include "plan/Activities.h"
#include "plan/Target.h"

#include <numeric>

using namespace fsdp;
using fsdp::test::SmallProfile;
using nlohmann::json;

void SmallProfile::slice(uint32_t rank, const std::string &name,
                         const char *category, double begin, double length,
                         json arguments) {
  events.push_back({{"ph", "X"},
                    {"pid", rank},
                    {"tid", 1},
                    {"ts", 1e3 * begin},
                    {"dur", 1e3 * length},
                    {"cat", category},
                    {"name", name},
                    {"args", std::move(arguments)}});
}

void SmallProfile::add(uint32_t rank, int64_t step, double begin,
                       const std::vector<double> &milliseconds) {
  const plan::ProgramT &program = *plan.programs.back();
  std::vector<Activity> activities = describeActivities(plan, program);
  double length =
      std::accumulate(milliseconds.begin(), milliseconds.end(), 0.0);
  slice(rank, "step " + std::to_string(step), "step", begin, length,
        {{"step", step}});
  slice(rank, program.name, "program", begin, length,
        {{"step", step}, {"micro_batch", 0}});
  static constexpr const char *kCategories[] = {"compute", "start", "wait"};
  for (size_t i = 0; i < milliseconds.size(); ++i) {
    slice(rank, activities[i].name, kCategories[size_t(activities[i].kind)],
          begin, milliseconds[i],
          {{"step", step},
           {"micro_batch", 0},
           {"program", program.name},
           {"instruction", i}});
    begin += milliseconds[i];
  }
}

std::string SmallProfile::text() const {
  json events = this->events;
  if (!isForHost(plan))
    events.push_back({{"ph", "M"},
                      {"pid", 0},
                      {"name", "process_labels"},
                      {"args", {{"labels", plan.training->device}}}});
  return json{{"displayTimeUnit", "ms"},
              {"traceEvents", events},
              {"fsdp", {{"steps", 1}, {"ranks", json::array()}}}}
      .dump();
}
