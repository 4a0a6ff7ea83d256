//===- Activities.cpp - Instructions in words -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Activities.h"

#include "plan/Groups.h"
#include "plan/ProgramText.h"

#include <algorithm>
#include <cctype>

using namespace fsdp;
using plan::Place;

static bool makes(Access access) {
  return defines(access) || access == Access::replace;
}

namespace {

class Describer {
public:
  Describer(const plan::PlanT &plan, const plan::ProgramT &program)
      : plan(plan), program(program), text(plan, program),
        buckets(program.values.size()), futures(program.futures) {
    for (size_t i = 0; i < program.values.size(); ++i) {
      const plan::ValueT &value = *program.values[i];
      if (value.place == Place::state)
        buckets[i] = plan.states[value.state]->bucket;
    }
  }

  Activity describe(const plan::InstructionT &instruction);

private:
  void start(Activity &activity, const plan::TransferT &start);
  void start(Activity &activity, const plan::CopyAcrossT &op);
  void wait(Activity &activity, const plan::WaitT &op);
  void locate(Activity &activity, int32_t at) const;
  const std::string &bucketOf(uint32_t value) const {
    const plan::ValueT &v = *program.values[value];
    return buckets[v.place == Place::view ? v.base : value];
  }
  std::string type(uint32_t value) const {
    const plan::ValueT &v = *program.values[value];
    return typeText(v.dtype, v.shape);
  }

  const plan::PlanT &plan;
  const plan::ProgramT &program;
  ProgramText text;
  std::vector<std::string> buckets; ///< of gathered parameters, by value
  std::vector<Activity> futures;    ///< the start of each
};

void Describer::start(Activity &activity, const plan::TransferT &start) {
  activity.kind = Activity::Kind::start;
  activity.collective = getName(start.kind);
  activity.name += " " + start.bucket;
  activity.bucket = start.bucket;
  activity.group = getGroupLabel(plan.groups[start.group]->name);
  activity.stream = start.stream;
  activity.future = start.future;
  activity.bytes = bytesOf(start, plan, program);
  activity.ranks = plan.groups[start.group]->size;
  futures[start.future] = activity;
  if (getFacts(start.kind).whole == Whole::got)
    for (uint32_t output : start.outputs)
      buckets[output] = start.bucket;
}

void Describer::start(Activity &activity, const plan::CopyAcrossT &op) {
  activity.kind = Activity::Kind::start;
  activity.collective = plan::EnumNameStream(op.stream);
  activity.name += " " + op.bucket;
  activity.bucket = op.bucket;
  activity.stream = op.stream;
  activity.future = op.future;
  for (uint32_t output : op.outputs)
    activity.bytes += program.values[output]->bytes;
  futures[op.future] = activity;
}

void Describer::wait(Activity &activity, const plan::WaitT &op) {
  std::string module = activity.module, source = activity.source;
  activity = futures[op.future];
  activity.kind = Activity::Kind::wait;
  activity.name = "wait " + activity.collective + " " + activity.bucket;
  activity.module = module;
  activity.source = source;
}

/// A location is "layers.0 (model.py:12)", "layers.0" or "model.py:12".
void Describer::locate(Activity &activity, int32_t at) const {
  if (at < 0)
    return;
  const std::string &text = plan.locations[at];
  size_t open = text.rfind(" (");
  if (open != std::string::npos && text.back() == ')') {
    activity.module = text.substr(0, open);
    activity.source = text.substr(open + 2, text.size() - open - 3);
    return;
  }
  size_t colon = text.rfind(':');
  bool isSource =
      colon != std::string::npos && colon + 1 < text.size() &&
      std::all_of(text.begin() + static_cast<std::ptrdiff_t>(colon) + 1,
                  text.end(), [](unsigned char c) { return std::isdigit(c); });
  (isSource ? activity.source : activity.module) = text;
}

Activity Describer::describe(const plan::InstructionT &instruction) {
  Activity activity;
  locate(activity, instruction.at);
  activity.name = text.print(instruction).name;
  if (const plan::WaitT *op = instruction.body.AsWait()) {
    wait(activity, *op);
  } else if (const plan::CopyAcrossT *copy = instruction.body.AsCopyAcross()) {
    start(activity, *copy);
  } else if (const plan::TransferT *transfer = transferOf(instruction)) {
    start(activity, *transfer);
  } else {
    // The first that belongs to a bucket lends its name.
    for (uint32_t value : valuesOf(instruction, reads))
      if (activity.bucket.empty())
        activity.bucket = bucketOf(value);
    activity.operands = join(valuesOf(instruction, reads), [&](uint32_t value) {
      const plan::ValueT &v = *program.values[value];
      return type(value) +
             (v.strides.empty() ? "" : " by " + toString(v.strides));
    });
    std::vector<uint32_t> made = valuesOf(instruction, makes);
    if (made.size() == 1)
      activity.result = type(made[0]);
  }
  return activity;
}

} // namespace

std::vector<Activity> fsdp::describeActivities(const plan::PlanT &plan,
                                               const plan::ProgramT &program) {
  Describer describer(plan, program);
  std::vector<Activity> activities;
  activities.reserve(program.instructions.size());
  for (const auto &instruction : program.instructions)
    activities.push_back(describer.describe(*instruction));
  return activities;
}

std::string fsdp::findPlace(const std::vector<Activity> &activities,
                            size_t number) {
  for (size_t i = number; i < activities.size(); ++i)
    if (activities[i].kind == Activity::Kind::compute &&
        activities[i].name != "free")
      return activities[i].module.empty() ? activities[i].name
                                          : activities[i].module;
  return "";
}
