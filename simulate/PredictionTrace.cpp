//===- PredictionTrace.cpp - A prediction as a file for Perfetto ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/PredictionText.h"

#include "plan/Activities.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace fsdp;
using nlohmann::ordered_json;

namespace {

/// Processes, as viewers call them.
constexpr int kPredicted = 0, kMeasured = 1;
constexpr int kComputeThread = 1;
/// Of streams; kernels are first.
int threadOf(plan::Stream stream) { return kComputeThread + int(stream); }

class TraceText {
public:
  explicit TraceText(const plan::PlanT &plan) : plan(plan) {}

  /// One behind the other; what was measured of it begins at the same time.
  void add(const PredictedProgram &program, const ProfiledProgram *measured);
  std::string finish();

private:
  void addMeasured(const std::vector<Activity> &activities,
                   const ProfiledProgram &program);
  void slice(int thread, const std::string &name, const char *category,
             double begin, double end, ordered_json arguments) {
    events.push_back({{"ph", "X"},
                      {"pid", process},
                      {"tid", thread},
                      {"ts", 1e6 * (zero + begin)},
                      {"dur", 1e6 * (end - begin)},
                      {"cat", category},
                      {"name", name},
                      {"args", std::move(arguments)}});
  }

  const plan::PlanT &plan;
  ordered_json events = ordered_json::array();
  double zero = 0; ///< seconds
  int process = kPredicted;
  bool hasMeasured = false;
};

ordered_json argumentsOf(const Activity &activity) {
  ordered_json arguments = ordered_json::object();
  auto add = [&](const char *key, const std::string &value) {
    if (!value.empty())
      arguments[key] = value;
  };
  add("module", activity.module);
  add("source", activity.source);
  add("bucket", activity.bucket);
  add("result", activity.result);
  return arguments;
}

} // namespace

/// The run that the profile shows.
void TraceText::addMeasured(const std::vector<Activity> &activities,
                            const ProfiledProgram &program) {
  process = kMeasured;
  hasMeasured = true;
  slice(kComputeThread, "measured", "program", 0, program.seconds,
        {{"rank", program.rank}, {"step", program.step}});
  for (const ProfiledKernel &kernel : program.kernels) {
    const Activity &activity = activities[kernel.instruction];
    slice(kComputeThread, activity.name, "compute", kernel.begin, kernel.end,
          argumentsOf(activity));
  }
  for (const ProfiledTransfer &transfer : program.transfers) {
    const Activity &activity = activities[transfer.start];
    std::string name = activity.collective + " " + activity.bucket;
    slice(threadOf(activity.stream), name, "transfer", transfer.begin,
          transfer.end,
          {{"bucket", activity.bucket},
           {"bytes", activity.bytes},
           {"exposed_us", 1e6 * (transfer.end - transfer.asked)}});
    slice(kComputeThread, "wait " + name, "wait", transfer.asked, transfer.end,
          argumentsOf(activities[transfer.wait]));
  }
  process = kPredicted;
}

void TraceText::add(const PredictedProgram &program,
                    const ProfiledProgram *measured) {
  const plan::ProgramT &each = *plan.programs[program.program];
  std::vector<Activity> activities = describeActivities(plan, each);
  slice(kComputeThread, getEntryName(getEntry(each)), "program", 0,
        program.seconds, {{"runs", program.runs}});
  for (const PredictedKernel &kernel : program.kernels) {
    const Activity &activity = activities[kernel.instruction];
    slice(kComputeThread, activity.name, getName(kernel.kind), kernel.begin,
          kernel.end, argumentsOf(activity));
  }
  for (const PredictedTransfer &transfer : program.transfers) {
    slice(threadOf(transfer.stream), transfer.kind + " " + transfer.bucket,
          "transfer", transfer.begin, transfer.end,
          {{"bucket", transfer.bucket},
           {"bytes", transfer.bytes},
           {"exposed_us", 1e6 * transfer.exposed()}});
    if (transfer.exposed() > 0)
      slice(kComputeThread, "wait " + transfer.kind + " " + transfer.bucket,
            "wait", transfer.asked, transfer.end,
            argumentsOf(activities[transfer.wait]));
  }
  for (const PredictedUse &use : program.uses)
    events.push_back({{"ph", "C"},
                      {"pid", 0},
                      {"ts", 1e6 * (zero + use.at)},
                      {"name", "transient memory"},
                      {"args", {{"bytes", use.bytes}}}});
  if (measured)
    addMeasured(activities, *measured);
  zero += std::max(program.seconds, measured ? measured->seconds : 0);
}

std::string TraceText::finish() {
  auto name = [&](const char *what, int thread, const std::string &text) {
    events.push_back({{"ph", "M"},
                      {"pid", process},
                      {"tid", thread},
                      {"name", what},
                      {"args", {{"name", text}}}});
  };
  for (process = kPredicted; process <= (hasMeasured ? kMeasured : kPredicted);
       ++process) {
    name("process_name", 0,
         process == kMeasured ? "measured rank" : "predicted rank");
    for (plan::Stream stream : plan::EnumValuesStream())
      name("thread_name", threadOf(stream), plan::EnumNameStream(stream));
  }
  ordered_json json = {{"displayTimeUnit", "ms"},
                       {"traceEvents", std::move(events)}};
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}

std::string fsdp::printPredictionTrace(const plan::PlanT &plan,
                                       const Prediction &prediction,
                                       const Profile *measured) {
  TraceText text(plan);
  for (const PredictedProgram &program : prediction.programs)
    text.add(program,
             measured ? measured->findProgram(program.program) : nullptr);
  return text.finish();
}
