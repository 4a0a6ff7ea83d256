//===- Activities.cpp - What the instructions of a profile are ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/profile/Activities.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "plan/Traffic.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <span>
#include <string_view>

using namespace fsdp;
using plan::Place;

/// "ZeroPadding" as "zero_padding".
static std::string toSnakeCase(std::string_view name) {
  std::string text;
  for (char c : name) {
    if (std::isupper(static_cast<unsigned char>(c)) && !text.empty())
      text += '_';
    text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

namespace {

class Describer {
public:
  Describer(const plan::PlanT &plan, const plan::ProgramT &program)
      : plan(plan), program(program), buckets(program.values.size()),
        futures(program.futures) {
    for (size_t i = 0; i < program.values.size(); ++i) {
      const plan::ValueT &value = *program.values[i];
      if (value.place == Place::state)
        buckets[i] = plan.states[value.state]->bucket;
    }
  }

  Activity describe(const plan::InstructionT &instruction);

private:
  void call(Activity &activity, const plan::CallT &op);
  template <typename OpTy>
  void start(Activity &activity, CollectiveKind kind, const OpTy &op,
             const std::vector<uint32_t> &parts);
  void wait(Activity &activity, const plan::WaitT &op);
  void locate(Activity &activity, int32_t at) const;
  /// The first of these values that belongs to a bucket lends its name.
  void takeBucket(Activity &activity, std::span<const uint32_t> values) const {
    for (uint32_t value : values)
      if (activity.bucket.empty())
        activity.bucket = bucketOf(value);
  }
  const std::string &bucketOf(uint32_t value) const {
    const plan::ValueT &v = *program.values[value];
    return buckets[v.place == Place::view ? v.base : value];
  }
  std::string type(uint32_t value) const {
    const plan::ValueT &v = *program.values[value];
    return std::string(dtypeName(v.dtype)) + toString(v.shape);
  }
  uint64_t bytes(uint32_t value) const {
    const plan::ValueT &v = *program.values[value];
    return *checkedExtent(v.shape, {}, dtypeBytes(v.dtype));
  }

  const plan::PlanT &plan;
  const plan::ProgramT &program;
  std::vector<std::string> buckets; ///< of gathered parameters, by value
  std::vector<Activity> futures;    ///< the start of each
};

void Describer::call(Activity &activity, const plan::CallT &op) {
  const plan::OperatorT &target = *plan.operators[op.op];
  activity.name = target.name;
  if (!target.overload.empty())
    activity.name += "." + target.overload;
  for (const auto &arg : op.args)
    for (int32_t value : arg->values)
      if (value >= 0)
        takeBucket(activity, std::array{static_cast<uint32_t>(value)});
  if (op.results.size() == 1 && op.results[0] >= 0)
    activity.result = type(static_cast<uint32_t>(op.results[0]));
}

template <typename OpTy>
void Describer::start(Activity &activity, CollectiveKind kind, const OpTy &op,
                      const std::vector<uint32_t> &parts) {
  activity.kind = Activity::Kind::start;
  activity.collective = getName(kind);
  activity.name = activity.collective + ".start " + op.bucket;
  activity.bucket = op.bucket;
  activity.group = "dp_" + plan.groups[op.group]->name;
  activity.stream = op.stream;
  activity.future = op.future;
  for (uint32_t part : parts)
    activity.bytes +=
        getTraffic(kind, bytes(part), plan.groups[op.group]->size);
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
  const plan::BodyUnion &body = instruction.body;
  Activity activity;
  locate(activity, instruction.at);
  if (auto *op = body.AsCall()) {
    call(activity, *op);
  } else if (auto *op = body.AsAllGather()) {
    start(activity, CollectiveKind::allGather, *op, op->inputs);
    for (uint32_t output : op->outputs)
      buckets[output] = op->bucket;
  } else if (auto *op = body.AsReduceScatter()) {
    start(activity, CollectiveKind::reduceScatter, *op, op->outputs);
  } else if (auto *op = body.AsAllReduce()) {
    start(activity, CollectiveKind::allReduce, *op, op->inputs);
  } else if (auto *op = body.AsWait()) {
    wait(activity, *op);
  } else if (auto *op = body.AsAdam()) {
    activity.name = plan::EnumNameAdamKind(op->kind);
    takeBucket(activity, op->params);
  } else if (auto *op = body.AsSgd()) {
    activity.name = "sgd";
    takeBucket(activity, op->params);
  } else if (auto *op = body.AsDraw()) {
    activity.name =
        std::string("draw ") + plan::EnumNameDistribution(op->distribution);
    activity.result = type(op->output);
  } else {
    activity.name = toSnakeCase(plan::EnumNameBody(body.type));
    if (auto *op = body.AsCopy())
      activity.result = type(op->to);
    else if (auto *op = body.AsShard())
      activity.result = type(op->output);
    else if (auto *op = body.AsAccumulate())
      activity.result = type(op->output);
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

std::vector<RecordedTransfer>
fsdp::findTransfers(const std::vector<std::vector<Activity>> &activities,
                    const RankProfile &profile) {
  std::vector<RecordedTransfer> transfers;
  // Futures belong to one run of a program.
  std::map<uint32_t, size_t> open;
  for (size_t i = 0; i < profile.records.size(); ++i) {
    const ProfileRecord &record = profile.records[i];
    if (i > 0 && record.run != profile.records[i - 1].run)
      open.clear();
    const Activity &activity =
        activities[profile.runs[record.run].program][record.instruction];
    if (activity.kind == Activity::Kind::start) {
      open[activity.future] = transfers.size();
      transfers.push_back({i, i});
    } else if (activity.kind == Activity::Kind::wait) {
      if (auto found = open.find(activity.future); found != open.end())
        transfers[found->second].wait = i;
    }
  }
  std::erase_if(transfers, [](const RecordedTransfer &transfer) {
    return transfer.wait == transfer.start;
  });
  return transfers;
}
