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
#include "simulate/Comparison.h"
#include "simulate/FusionText.h"
#include "simulate/TimelinePage.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <unordered_map>

using namespace fsdp;
using nlohmann::ordered_json;

namespace {

int64_t nanoseconds(double seconds) { return std::llround(1e9 * seconds); }

class PageData {
public:
  explicit PageData(const plan::PlanT &plan) : plan(plan) {}

  std::string write(const Prediction &prediction, const Profile *measured,
                    const Fusion *fusion);

private:
  size_t intern(const std::string &text) {
    auto [entry, isNew] = numbers.try_emplace(text, strings.size());
    if (isNew)
      strings.push_back(text);
    return entry->second;
  }

  ordered_json describeMemory(const Prediction &prediction) const;
  ordered_json describe(const PredictedProgram &program,
                        const ProfiledProgram *measured);
  ordered_json describeMeasured(const PredictedProgram &predicted,
                                const ProfiledProgram &program);
  ordered_json describeMeasuredKernels(const PredictedProgram &predicted,
                                       const ProfiledProgram &program);
  ordered_json describeKernels(const PredictedProgram &program);
  ordered_json describeTransfers(const PredictedProgram &program);
  ordered_json describeUses(const PredictedProgram &program);

  const plan::PlanT &plan;
  std::vector<Activity> activities; ///< of one program
  std::unordered_map<std::string, size_t> numbers;
  std::vector<std::string> strings;
};

/// By kind, at the moment of the highest use.
ordered_json PageData::describeMemory(const Prediction &prediction) const {
  ordered_json json = {{"planned", prediction.planned},
                       {"scratch", prediction.scratch},
                       {"scratchUnknown", prediction.scratchUnknown},
                       {"reserved", prediction.reserved},
                       {"communicators", prediction.communicators},
                       {"held", prediction.held()},
                       {"capacity", prediction.capacity},
                       {"host", prediction.hostPlanned},
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

/// Kinds of slices that only a measured lane has, behind those of kernels.
constexpr size_t kStartKind = kWorkKinds, kInputKind = kWorkKinds + 1;

/// What the rank's thread did, starts of transfers among it, in order. `median`
/// is what all runs took, the others are of the one that is shown.
ordered_json
PageData::describeMeasuredKernels(const PredictedProgram &predicted,
                                  const ProfiledProgram &program) {
  std::vector<WorkKind> kinds(activities.size(), WorkKind::none);
  for (const PredictedKernel &kernel : predicted.kernels)
    kinds[kernel.instruction] = kernel.kind;
  struct Slice {
    double begin, end, median;
    size_t kind;
    uint32_t instruction;
  };
  std::vector<Slice> slices;
  for (const ProfiledKernel &each : program.kernels)
    slices.push_back({each.begin, each.end, each.seconds,
                      size_t(kinds[each.instruction]), each.instruction});
  for (const ProfiledTransfer &each : program.transfers)
    slices.push_back(
        {each.begin, each.started, each.starting, kStartKind, each.start});
  std::ranges::stable_sort(slices, {}, &Slice::begin);

  ordered_json json;
  for (const char *key : {"kind", "begin", "length", "median", "name", "module",
                          "source", "result", "bucket", "at"})
    json[key] = ordered_json::array();
  auto add = [&](size_t kind, double begin, double end, double median,
                 const Activity &activity, int64_t at) {
    json["kind"].push_back(kind);
    json["begin"].push_back(nanoseconds(begin));
    json["length"].push_back(nanoseconds(end) - nanoseconds(begin));
    json["median"].push_back(nanoseconds(median));
    json["name"].push_back(intern(activity.name));
    json["module"].push_back(intern(activity.module));
    json["source"].push_back(intern(activity.source));
    json["result"].push_back(intern(activity.result));
    json["bucket"].push_back(intern(activity.bucket));
    json["at"].push_back(at);
  };
  if (program.inputs > 0) {
    Activity inputs;
    inputs.name = "inputs";
    add(kInputKind, 0, program.inputs, program.inputs, inputs, -1);
  }
  for (const Slice &each : slices)
    add(each.kind, each.begin, each.end, each.median,
        activities[each.instruction], each.instruction);
  return json;
}

/// As a predicted program, and the medians of all runs: of transfers
/// [in flight, exposed].
ordered_json PageData::describeMeasured(const PredictedProgram &predicted,
                                        const ProfiledProgram &program) {
  ordered_json transfers = ordered_json::array(), medians = transfers;
  for (const ProfiledTransfer &each : program.transfers) {
    const Activity &activity = activities[each.start];
    transfers.push_back(
        {activity.stream, intern(activity.collective), intern(activity.bucket),
         activity.bytes, nanoseconds(each.begin), nanoseconds(each.begin),
         nanoseconds(each.end), nanoseconds(each.asked), 0, each.start,
         each.wait, intern(findPlace(activities, each.start)),
         intern(findPlace(activities, each.wait))});
    medians.push_back({nanoseconds(each.flight), nanoseconds(each.exposed)});
  }
  return {{"length", nanoseconds(program.seconds)},
          {"runs", program.runs},
          {"rank", program.rank},
          {"step", program.step},
          {"kernels", describeMeasuredKernels(predicted, program)},
          {"transfers", std::move(transfers)},
          {"medians", std::move(medians)},
          {"uses", ordered_json::array()}};
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

ordered_json PageData::describe(const PredictedProgram &program,
                                const ProfiledProgram *measured) {
  const plan::ProgramT &each = *plan.programs[program.program];
  activities = describeActivities(plan, each);
  ordered_json byKind = ordered_json::array();
  for (double seconds : program.byKind)
    byKind.push_back(nanoseconds(seconds));
  ordered_json json = {{"name", getEntryName(getEntry(each))},
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
  if (measured)
    json["measured"] = describeMeasured(program, *measured);
  return json;
}

/// [name, count, predicted, measured]
static ordered_json describePairs(const Comparison &compared) {
  ordered_json kinds = ordered_json::array(), operators = kinds;
  auto row = [](const std::string &name, const SecondsPair &pair) {
    return ordered_json{name, pair.count, nanoseconds(pair.predicted),
                        nanoseconds(pair.measured)};
  };
  for (size_t kind = 0; kind < kWorkKinds; ++kind)
    if (compared.kinds[kind].count != 0)
      kinds.push_back(row(getName(WorkKind(kind)), compared.kinds[kind]));
  for (const auto &[name, pair] : compared.operators)
    operators.push_back(row(name, pair));
  return {{"kinds", std::move(kinds)}, {"operators", std::move(operators)}};
}

std::string PageData::write(const Prediction &prediction,
                            const Profile *measured, const Fusion *fusion) {
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
  if (measured) {
    json["kinds"].push_back("starting transfers");
    json["kinds"].push_back("reading inputs");
    Comparison compared = compare(plan, prediction, *measured);
    json["measured"] = describePairs(compared);
    json["measured"]["length"] = nanoseconds(measured->seconds);
    json["measured"]["compute"] = nanoseconds(compared.compute.measured);
    json["measured"]["exposed"] = nanoseconds(compared.exposed.measured);
    json["measured"]["starting"] = nanoseconds(compared.starting);
    json["measured"]["inputs"] = nanoseconds(compared.inputs);
    json["measured"]["ranks"] = measured->ranks;
    json["measured"]["steps"] = measured->steps;
  }
  if (fusion)
    json["fusion"] = describeFusion(*fusion);
  json["streams"] = ordered_json::array();
  for (plan::Stream stream : plan::EnumValuesStream())
    json["streams"].push_back(plan::EnumNameStream(stream));
  json["programs"] = ordered_json::array();
  for (const PredictedProgram &program : prediction.programs)
    json["programs"].push_back(describe(
        program, measured ? measured->findProgram(program.program) : nullptr));
  // Last, when all are known.
  json["strings"] = strings;
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

} // namespace

std::string fsdp::printPredictionPage(const plan::PlanT &plan,
                                      const Prediction &prediction,
                                      const Profile *measured,
                                      const Fusion *fusion) {
  std::string_view page = kTimelinePage, mark = kTimelineData;
  size_t at = page.find(mark);
  std::string text(page.substr(0, at));
  // No text may end the element that it stands in.
  for (char each : PageData(plan).write(prediction, measured, fusion))
    if (each == '<')
      text += "\\u003c";
    else
      text += each;
  return text.append(page.substr(at + mark.size()));
}
