//===- Profiler.cpp - fsdp-run --profile ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/Profiler.h"

#include "plan/Activities.h"
#include "runtime/log/Log.h"
#include "runtime/profile/Attribution.h"
#include "runtime/profile/Summary.h"
#include "runtime/profile/Trace.h"
#include "support/Error.h"

#include <algorithm>
#include <charconv>

using namespace fsdp;

static constexpr uint64_t kWarmUp = 3, kDefaultCount = 5;
/// Records of a rank: 32 bytes each, and ten times as much in the file.
static constexpr uint64_t kMostRecords = uint64_t(1) << 24;

ProfileSteps fsdp::parseProfileSteps(const std::string &text, uint64_t steps) {
  if (steps == 0)
    throw Error(ErrorId::BadUsage,
                "--profile: expected steps to profile, found --steps=0; take "
                "some");
  if (text.empty()) {
    uint64_t first = std::min(kWarmUp, steps - 1);
    return {first, std::min(kDefaultCount, steps - first)};
  }
  ProfileSteps result;
  const char *end = text.data() + text.size();
  auto [colon, failure] = std::from_chars(text.data(), end, result.first);
  bool isGood = failure == std::errc() && colon != end && *colon == ':';
  if (isGood) {
    auto [last, error] = std::from_chars(colon + 1, end, result.count);
    isGood = error == std::errc() && last == end && result.count > 0;
  }
  if (!isGood)
    throw Error(ErrorId::BadUsage,
                "--profile-steps: expected FIRST:COUNT, the first step, from "
                "0, and how many, found '" +
                    text + "'; as in --profile-steps=3:5");
  if (result.first >= steps || result.count > steps - result.first)
    throw Error(ErrorId::BadUsage,
                "--profile-steps=" + text + " is beyond the run's " +
                    std::to_string(steps) +
                    " steps, which are counted from 0; take others, or more "
                    "--steps");
  return result;
}

/// The most instructions that one micro-batch runs.
static uint64_t longestProgram(const plan::PlanT &plan) {
  uint64_t most = 0;
  for (const auto &program : plan.programs)
    most = std::max<uint64_t>(most, program->instructions.size());
  return most;
}

Profiler::Profiler(Session &session, const std::string &path,
                   ProfileSteps steps)
    : session(session), path(path), steps(steps), device(session.activities()) {
  uint64_t runs = steps.count * session.microBatches();
  uint64_t each = std::max<uint64_t>(longestProgram(session.plan()), 1);
  if (runs > kMostRecords / each)
    throw Error(ErrorId::BadUsage,
                "--profile-steps: " + std::to_string(steps.count) +
                    " steps of this artifact are up to " +
                    std::to_string(runs) + " times " + std::to_string(each) +
                    " instructions, and a profile holds " +
                    std::to_string(kMostRecords) + "; profile fewer steps");
  recorder.emplace(session.plan(), runs * each, runs, steps.count);
  if (!device)
    return;
  // What a mark has no number for could not be told apart.
  if (runs > DeviceMark::kMostRuns || each > DeviceMark::kMostInstructions ||
      session.rank() >= static_cast<int>(DeviceMark::kMostRanks))
    throw Error(
        ErrorId::BadUsage,
        "--profile: expected at most " +
            std::to_string(DeviceMark::kMostRanks) + " ranks and programs of " +
            std::to_string(DeviceMark::kMostInstructions) +
            " instructions on a GPU, found more; profile a smaller run");
  recorder->watch(*device, session.rank());
  if (steps.first == 0)
    list();
}

Profiler::~Profiler() {
  session.record(nullptr);
  if (isListing)
    try {
      device->end();
    } catch (const Error &) {
      // The run has failed before, and says why.
    }
}

void Profiler::list() {
  device->begin();
  isListing = true;
}

void Profiler::stopListing() {
  isListing = false;
  device->end();
}

void Profiler::beginStep(uint64_t number) {
  session.record(recorder && isProfiled(number) ? &*recorder : nullptr);
}

void Profiler::endStep(uint64_t number,
                       std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  if (!recorder || !isProfiled(number))
    return;
  auto nanoseconds = [](std::chrono::steady_clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               time.time_since_epoch())
        .count();
  };
  recorder->addStep(number, nanoseconds(begin), nanoseconds(end));
}

bool Profiler::finishStep(uint64_t number) {
  if (device && recorder && number + 1 == steps.first) {
    list();
    return true;
  }
  if (!recorder || number + 1 != steps.first + steps.count)
    return false;
  session.record(nullptr);
  write();
  recorder.reset();
  return true;
}

RankProfile Profiler::own(const std::vector<std::vector<Activity>> &words) {
  if (!device)
    return profileOf(*recorder);
  // Peers that are threads put work there, too.
  session.fabric().exchange("profile/ran", "");
  DeviceListing listing = device->list();
  session.fabric().exchange("profile/listed", "");
  stopListing();
  return attributeActivities(session.plan(), words, *recorder, session.rank(),
                             listing);
}

/// A warning for each rank whose device could not list all.
static std::string describeLost(const std::vector<RankProfile> &profiles) {
  std::string text;
  for (size_t rank = 0; rank < profiles.size(); ++rank)
    if (uint64_t lost = profiles[rank].lost)
      text += "the GPU of rank " + std::to_string(rank) + " could not list " +
              std::to_string(lost) +
              " pieces of its work: times are too short; profile fewer steps\n";
  return text;
}

void Profiler::write() {
  if (recorder->dropped() != 0)
    log(LogLevel::warning, "--profile: " + std::to_string(recorder->dropped()) +
                               " records found no room");
  Fabric &fabric = session.fabric();
  const plan::PlanT &plan = session.plan();
  std::vector<std::vector<Activity>> activities;
  if (device || session.rank() == 0)
    for (const auto &program : plan.programs)
      activities.push_back(describeActivities(plan, *program));
  std::vector<RankProfile> profiles = collectProfiles(own(activities), fabric);
  if (session.rank() == 0) {
    ProfileSummary summary = summarizeProfile(activities, profiles);
    writeTrace(path, plan, activities, profiles, summary);
    std::string first = std::to_string(steps.first);
    std::string last = std::to_string(steps.first + steps.count - 1);
    text = "profile of step" +
           (steps.count == 1 ? " " + first : "s " + first + " to " + last) +
           ", times of one step; " + path +
           " shows in https://ui.perfetto.dev\n";
    int64_t uncertainty = 0;
    for (const RankProfile &profile : profiles)
      uncertainty = std::max(uncertainty, profile.clockUncertainty);
    if (uncertainty > 0)
      text += "clocks of other machines were compared within " +
              std::to_string(uncertainty / 1000 + 1) + " us\n";
    text += describeLost(profiles);
    text += printSummary(summary);
  }
  // Nobody goes on before the file is there.
  fabric.exchange("profile/written", "written");
}
