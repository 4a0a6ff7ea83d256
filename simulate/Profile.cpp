//===- Profile.cpp - What was measured of a plan --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/Profile.h"

#include "plan/Activities.h"
#include "plan/Target.h"
#include "simulate/TraceEvents.h"
#include "support/Error.h"
#include "support/MappedFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

using namespace fsdp;
using nlohmann::json;

namespace {

/// The middle one, or of an even number the lower of both: a time that was
/// really measured.
double median(std::vector<double> values) {
  auto middle = values.begin() + std::ptrdiff_t((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Seconds on the profile's clock.
struct Span {
  double begin = 0, end = 0;
  double busy = -1; ///< of a GPU's kernels; less: all of it

  double length() const { return busy < 0 ? end - begin : busy; }
};

/// Rank, step, micro-batch.
using RunKey = std::tuple<uint32_t, int64_t, int64_t>;

struct Run {
  uint32_t program = 0;
  Span span;
  double inputs = 0;
  std::vector<std::pair<uint32_t, Span>> records; ///< by instruction
};

class ProfileReader {
public:
  ProfileReader(const std::string &file, const plan::PlanT &plan)
      : file(file), plan(plan) {
    for (const auto &program : plan.programs)
      activities.push_back(describeActivities(plan, *program));
  }

  Profile read(std::string_view text);

private:
  [[noreturn]] void fail(const std::string &what) const {
    throw Error(ErrorId::ProfileInvalid, "profile '" + file + "': " + what);
  }

  void add(const json &event);
  void addRecord(const json &event, const json &arguments, Span span);
  Span readSpan(const json &event) const;
  uint32_t findProgram(const std::string &name) const;
  ProfiledProgram summarize(uint32_t program,
                            const std::vector<const RunKey *> &keys) const;

  const std::string &file;
  const plan::PlanT &plan;
  std::vector<std::vector<Activity>> activities;
  std::map<RunKey, Run> runs;
  std::vector<double> steps;
  std::set<int64_t> stepNumbers;
  std::set<uint32_t> ranks;
  std::string device; ///< that it was measured on; empty: a host
};

Span ProfileReader::readSpan(const json &event) const {
  double begin = 1e-6 * event.at("ts").get<double>();
  double length = 1e-6 * event.at("dur").get<double>();
  if (!std::isfinite(begin) || !std::isfinite(length) || length < 0)
    fail("expected times that are numbers and do not go backwards, found " +
         event.at("ts").dump() + " for " + event.at("dur").dump());
  return {begin, begin + length};
}

uint32_t ProfileReader::findProgram(const std::string &name) const {
  for (uint32_t i = 0; i < plan.programs.size(); ++i)
    if (plan.programs[i]->name == name)
      return i;
  fail("expected programs of the artifact, found '" + name +
       "': it was measured with another artifact");
}

void ProfileReader::addRecord(const json &event, const json &arguments,
                              Span span) {
  uint32_t program =
      findProgram(arguments.at("program").get_ref<const std::string &>());
  auto number = arguments.at("instruction").get<uint64_t>();
  const std::vector<Activity> &known = activities[program];
  const auto &name = event.at("name").get_ref<const std::string &>();
  // Instructions of another artifact have other numbers.
  if (number >= known.size() || known[number].name != name)
    fail("expected instruction " + std::to_string(number) + " of '" +
         plan.programs[program]->name + "' to be " +
         (number < known.size() ? "'" + known[number].name + "'"
                                : "one of " + std::to_string(known.size())) +
         ", found '" + name +
         "': it was measured with another artifact; profile this one");
  Run &run = runs[{event.at("pid").get<uint32_t>(),
                   arguments.at("step").get<int64_t>(),
                   arguments.at("micro_batch").get<int64_t>()}];
  run.program = program;
  if (arguments.contains("busy_us"))
    span.busy = 1e-6 * arguments.at("busy_us").get<double>();
  run.records.emplace_back(uint32_t(number), span);
}

void ProfileReader::add(const json &event) {
  if (std::string label = readDeviceLabel(event); !label.empty())
    device = label;
  if (event.value("ph", "") != "X")
    return;
  std::string category = event.value("cat", "");
  // What a transfer took follows from its start and its wait.
  if (category == "transfer")
    return;
  Span span = readSpan(event);
  const json &arguments = event.at("args");
  auto rank = event.at("pid").get<uint32_t>();
  if (category == "compute" || category == "start" || category == "wait")
    return addRecord(event, arguments, span);
  auto step = arguments.at("step").get<int64_t>();
  ranks.insert(rank);
  stepNumbers.insert(step);
  if (category == "step") {
    steps.push_back(span.length());
    return;
  }
  Run &run = runs[{rank, step, arguments.at("micro_batch").get<int64_t>()}];
  if (category == "program") {
    run.program = findProgram(event.at("name").get_ref<const std::string &>());
    run.span = span;
  } else if (category == "inputs") {
    run.inputs = span.length();
  }
}

ProfiledProgram
ProfileReader::summarize(uint32_t number,
                         const std::vector<const RunKey *> &keys) const {
  ProfiledProgram result;
  result.program = number;
  result.runs = keys.size();
  const std::vector<Activity> &known = activities[number];

  // Equal lengths: the first rank's first.
  std::vector<const RunKey *> sorted = keys;
  std::ranges::stable_sort(sorted, {}, [&](const RunKey *key) {
    return runs.at(*key).span.length();
  });
  const RunKey &shownKey = *sorted[(sorted.size() - 1) / 2];
  const Run &shown = runs.at(shownKey);
  result.seconds = shown.span.length();
  result.inputs = shown.inputs;
  result.rank = std::get<0>(shownKey);
  result.step = std::get<1>(shownKey);

  std::vector<std::vector<double>> lengths(known.size()), flights(known.size());
  for (const RunKey *key : keys) {
    std::map<uint32_t, Span> open; // by future
    for (const auto &[instruction, span] : runs.at(*key).records) {
      lengths[instruction].push_back(span.length());
      const Activity &activity = known[instruction];
      if (activity.kind == Activity::Kind::start)
        open[activity.future] = span;
      else if (activity.kind == Activity::Kind::wait)
        if (auto start = open.find(activity.future); start != open.end())
          flights[instruction].push_back(span.end - start->second.begin);
    }
  }

  std::map<uint32_t, Span> moments;
  for (const auto &[instruction, span] : shown.records)
    moments[instruction] = {span.begin - shown.span.begin,
                            span.end - shown.span.begin};
  std::map<uint32_t, uint32_t> starts; // by future
  for (const auto &[instruction, span] : moments) {
    const Activity &activity = known[instruction];
    if (activity.kind == Activity::Kind::compute) {
      result.kernels.push_back(
          {instruction, median(lengths[instruction]), span.begin, span.end});
    } else if (activity.kind == Activity::Kind::start) {
      starts[activity.future] = instruction;
    } else if (auto start = starts.find(activity.future);
               start != starts.end() && !flights[instruction].empty()) {
      result.transfers.push_back(
          {start->second, instruction, median(lengths[start->second]),
           median(flights[instruction]), median(lengths[instruction]),
           moments[start->second].begin, moments[start->second].end, span.end,
           span.begin});
    }
  }
  std::ranges::sort(result.transfers, {}, &ProfiledTransfer::start);
  return result;
}

Profile ProfileReader::read(std::string_view text) {
  bool hasEvents =
      readTraceEvents(text, file, [&](const json &event) { add(event); });
  Profile profile;
  std::map<uint32_t, std::vector<const RunKey *>> byProgram;
  for (const auto &[key, run] : runs)
    if (run.span.length() > 0 && !run.records.empty())
      byProgram[run.program].push_back(&key);
  if (!hasEvents || byProgram.empty() || steps.empty())
    fail("expected steps of fsdp-run --profile, found none");
  if (device.empty() != isForHost(plan))
    fail("expected a run on device '" +
         (isForHost(plan) ? "cpu" : plan.training->device) +
         "', found one on '" + (device.empty() ? "cpu" : device) +
         "': it was measured with another artifact; profile this one");
  profile.ranks = ranks.size();
  profile.steps = stepNumbers.size();
  profile.seconds = median(steps);
  for (const auto &[program, keys] : byProgram)
    profile.programs.push_back(summarize(program, keys));
  return profile;
}

} // namespace

const ProfiledKernel *ProfiledProgram::findKernel(uint32_t instruction) const {
  auto found = std::ranges::lower_bound(kernels, instruction, {},
                                        &ProfiledKernel::instruction);
  return found != kernels.end() && found->instruction == instruction ? &*found
                                                                     : nullptr;
}

const ProfiledTransfer *ProfiledProgram::findTransfer(uint32_t start) const {
  auto found =
      std::ranges::lower_bound(transfers, start, {}, &ProfiledTransfer::start);
  return found != transfers.end() && found->start == start ? &*found : nullptr;
}

const ProfiledProgram *Profile::findProgram(uint32_t program) const {
  auto found = std::ranges::find(programs, program, &ProfiledProgram::program);
  return found == programs.end() ? nullptr : &*found;
}

Profile Profile::parse(std::string_view text, const std::string &file,
                       const plan::PlanT &plan) {
  return ProfileReader(file, plan).read(text);
}

Profile Profile::read(const std::string &path, const plan::PlanT &plan) {
  MappedFile file(path, "the profile");
  return parse({file.data() ? file.data() : "", file.bytes()}, path, plan);
}
