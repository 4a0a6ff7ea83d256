//===- PredictionPage.cpp - A prediction as a picture ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the data; Timeline.html, the page around it, draws them. Times are
// whole nanoseconds, and texts numbers into one list, which keeps pages of
// large models small.
//
//===----------------------------------------------------------------------===//

#include "simulate/PredictionText.h"

#include "plan/Activities.h"
#include "simulate/TimelinePage.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <unordered_map>

using namespace fsdp;
using nlohmann::ordered_json;

namespace {

int64_t nanoseconds(double seconds) { return std::llround(1e9 * seconds); }

class PageData {
public:
  explicit PageData(const plan::PlanT &plan) : plan(plan) {}

  std::string write(const Prediction &prediction);

private:
  size_t intern(const std::string &text) {
    auto [entry, isNew] = numbers.try_emplace(text, strings.size());
    if (isNew)
      strings.push_back(text);
    return entry->second;
  }

  ordered_json describeMemory(const Prediction &prediction) const;
  ordered_json describe(const PredictedProgram &program);
  ordered_json describeKernels(const PredictedProgram &program);
  ordered_json describeTransfers(const PredictedProgram &program);
  ordered_json describeUses(const PredictedProgram &program);
  /// The module of what computes next; empty: nothing does.

  const plan::PlanT &plan;
  std::vector<Activity> activities; ///< of one program
  std::unordered_map<std::string, size_t> numbers;
  std::vector<std::string> strings;
};

/// By kind, at the moment of the highest use.
ordered_json PageData::describeMemory(const Prediction &prediction) const {
  ordered_json json = {
      {"planned", prediction.planned},   {"scratch", prediction.scratch},
      {"reserved", prediction.reserved}, {"held", prediction.held()},
      {"capacity", prediction.capacity}, {"host", prediction.hostPlanned},
      {"isHost", prediction.isHost}};
  const plan::MemoryT none;
  const plan::MemoryT &memory = plan.memory ? *plan.memory : none;
  json["states"] = memory.states;
  json["parameters"] = memory.params;
  json["optimizer"] = memory.optimizer;
  json["buffers"] = memory.buffers;
  json["inputs"] = memory.inputs;
  json["activations"] = memory.activations;
  json["gathered"] = memory.gathered;
  json["gradients"] = memory.grads;
  return json;
}

/// One list for each property, of which all have the same length.
ordered_json PageData::describeKernels(const PredictedProgram &program) {
  ordered_json kinds = ordered_json::array(), begins = kinds, lengths = kinds,
               names = kinds, modules = kinds, sources = kinds, results = kinds,
               buckets = kinds, at = kinds;
  for (const PredictedKernel &kernel : program.kernels) {
    const Activity &activity = activities[kernel.instruction];
    int64_t begin = nanoseconds(kernel.begin);
    kinds.push_back(kernel.kind);
    begins.push_back(begin);
    lengths.push_back(nanoseconds(kernel.end) - begin);
    names.push_back(intern(activity.name));
    modules.push_back(intern(activity.module));
    sources.push_back(intern(activity.source));
    results.push_back(intern(activity.result));
    buckets.push_back(intern(activity.bucket));
    at.push_back(kernel.instruction);
  }
  return {{"kind", kinds},     {"begin", begins},   {"length", lengths},
          {"name", names},     {"module", modules}, {"source", sources},
          {"result", results}, {"bucket", buckets}, {"at", at}};
}

/// [stream, kind, bucket, bytes, given, begin, end, asked, alone, start, wait,
/// module behind the start, module behind the wait]
ordered_json PageData::describeTransfers(const PredictedProgram &program) {
  ordered_json json = ordered_json::array();
  for (const PredictedTransfer &each : program.transfers)
    json.push_back({each.stream, intern(each.kind), intern(each.bucket),
                    each.bytes, nanoseconds(each.given),
                    nanoseconds(each.begin), nanoseconds(each.end),
                    nanoseconds(each.asked), nanoseconds(each.alone),
                    each.start, each.wait,
                    intern(findPlace(activities, each.start)),
                    intern(findPlace(activities, each.wait))});
  return json;
}

/// [at, bytes, name, module, source]
ordered_json PageData::describeUses(const PredictedProgram &program) {
  ordered_json json = ordered_json::array();
  for (const PredictedUse &use : program.uses) {
    const Activity &activity = activities[use.instruction];
    json.push_back({nanoseconds(use.at), use.bytes, intern(activity.name),
                    intern(activity.module), intern(activity.source)});
  }
  return json;
}

ordered_json PageData::describe(const PredictedProgram &program) {
  const plan::ProgramT &each = *plan.programs[program.program];
  activities = describeActivities(plan, each);
  ordered_json byKind = ordered_json::array();
  for (double seconds : program.byKind)
    byKind.push_back(nanoseconds(seconds));
  return {{"name", getEntryName(getEntry(each))},
          {"runs", program.runs},
          {"length", nanoseconds(program.seconds)},
          {"compute", nanoseconds(program.compute)},
          {"exposed", nanoseconds(program.exposed)},
          {"idle", nanoseconds(program.idle)},
          {"flops", program.flops},
          {"byKind", std::move(byKind)},
          {"kernels", describeKernels(program)},
          {"transfers", describeTransfers(program)},
          {"uses", describeUses(program)}};
}

std::string PageData::write(const Prediction &prediction) {
  std::string path = plan.model ? plan.model->path : "";
  ordered_json json = {{"title", path.substr(path.rfind('/') + 1)},
                       {"cluster", prediction.cluster},
                       {"ranks", prediction.ranks},
                       {"nodes", prediction.nodes},
                       {"length", nanoseconds(prediction.seconds)},
                       {"compute", nanoseconds(prediction.compute)},
                       {"exposed", nanoseconds(prediction.exposed)},
                       {"idle", nanoseconds(prediction.idle)},
                       {"flops", prediction.flops},
                       {"wireBytes", prediction.wireBytes},
                       {"memory", describeMemory(prediction)}};
  json["kinds"] = ordered_json::array();
  for (size_t kind = 0; kind < kWorkKinds; ++kind)
    json["kinds"].push_back(getName(WorkKind(kind)));
  json["streams"] = ordered_json::array();
  for (plan::Stream stream : plan::EnumValuesStream())
    json["streams"].push_back(plan::EnumNameStream(stream));
  json["programs"] = ordered_json::array();
  for (const PredictedProgram &program : prediction.programs)
    json["programs"].push_back(describe(program));
  // Last, when all are known.
  json["strings"] = strings;
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

} // namespace

std::string fsdp::printPredictionPage(const plan::PlanT &plan,
                                      const Prediction &prediction) {
  std::string_view page = kTimelinePage, mark = kTimelineData;
  size_t at = page.find(mark);
  std::string text(page.substr(0, at));
  // No text may end the element that it stands in.
  for (char each : PageData(plan).write(prediction))
    if (each == '<')
      text += "\\u003c";
    else
      text += each;
  return text.append(page.substr(at + mark.size()));
}
