//===- Trace.cpp - A profile as a file for Perfetto -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/profile/Trace.h"

#include "support/AtomicFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

using namespace fsdp;

static constexpr size_t kBufferBytes = 1 << 20;
static constexpr int kComputeThread = 1;

namespace {

/// With quotes. Names of operators and modules need not be UTF-8.
std::string quote(const std::string &text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

/// Microseconds, exact to the nanosecond.
std::string microseconds(int64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%" PRId64 ".%03d", nanoseconds / 1000,
                static_cast<int>(nanoseconds % 1000));
  return text;
}

class TraceWriter {
public:
  TraceWriter(const std::string &path, const plan::PlanT &plan,
              const std::vector<std::vector<Activity>> &activities,
              const std::vector<RankProfile> &profiles)
      : file(path), plan(plan), activities(activities), profiles(profiles) {}

  void write(const ProfileSummary &summary);

private:
  /// A stream's thread, of which there are several where transfers overlap.
  using Track = std::tuple<plan::Stream, std::string, size_t>;

  void describeOnce();
  void writeRank(int rank);
  void writeSteps();
  void writeTransfers(int rank);
  std::string numbers(const ProfileSummary &summary) const;

  void name(const char *what, int thread, const std::string &text,
            const char *order, int number);
  void slice(int thread, const std::string &quotedName, const char *category,
             int64_t begin, int64_t end, const std::string &arguments);
  void flow(const char *phase, int thread, int64_t time);
  void event(const std::string &text) {
    buffer += isFirst ? "" : ",\n";
    buffer += text;
    isFirst = false;
    if (buffer.size() > kBufferBytes)
      flush();
  }
  void flush() {
    file.write(buffer);
    buffer.clear();
  }
  std::string dynamicArguments(const ProfileRecord &record) const;
  std::pair<int64_t, int64_t> findSlice(const RecordedTransfer &transfer) const;
  std::string time(int64_t nanoseconds) const {
    return microseconds(nanoseconds - zero);
  }

  AtomicFile file;
  const plan::PlanT &plan;
  const std::vector<std::vector<Activity>> &activities;
  const std::vector<RankProfile> &profiles;
  /// Of each program's instructions: the name and what never changes of the
  /// arguments.
  std::vector<std::vector<std::pair<std::string, std::string>>> texts;
  std::string buffer, process;
  const RankProfile *profile = nullptr; ///< of the rank that is written
  int64_t zero = 0;
  uint64_t flows = 0;
  bool isFirst = true;
};

} // namespace

void TraceWriter::describeOnce() {
  for (const auto &program : activities) {
    auto &rows = texts.emplace_back();
    for (const Activity &activity : program) {
      std::string arguments;
      auto add = [&](const char *key, const std::string &value) {
        if (!value.empty())
          arguments += std::string("\"") + key + "\":" + quote(value) + ",";
      };
      add("module", activity.module);
      add("source", activity.source);
      add("bucket", activity.bucket);
      add("result", activity.result);
      add("operands", activity.operands);
      add("collective", activity.collective);
      add("group", activity.group);
      if (activity.kind != Activity::Kind::compute)
        arguments += "\"bytes\":" + std::to_string(activity.bytes) +
                     ",\"ranks\":" + std::to_string(activity.ranks) + ",";
      rows.emplace_back(quote(activity.name), std::move(arguments));
    }
  }
}

void TraceWriter::name(const char *what, int thread, const std::string &text,
                       const char *order, int number) {
  std::string head = process + ",\"tid\":" + std::to_string(thread);
  event(std::string("{\"ph\":\"M\",") + head + ",\"name\":\"" + what +
        "\",\"args\":{\"name\":" + quote(text) + "}}");
  event(std::string("{\"ph\":\"M\",") + head + ",\"name\":\"" + order +
        "\",\"args\":{\"sort_index\":" + std::to_string(number) + "}}");
}

void TraceWriter::slice(int thread, const std::string &quotedName,
                        const char *category, int64_t begin, int64_t end,
                        const std::string &arguments) {
  event("{\"ph\":\"X\"," + process + ",\"tid\":" + std::to_string(thread) +
        ",\"ts\":" + time(begin) + ",\"dur\":" + microseconds(end - begin) +
        ",\"cat\":\"" + category + "\",\"name\":" + quotedName + ",\"args\":{" +
        arguments + "}}");
}

/// A part of the arrow that `flows` counts: s where it starts, t on its way, f
/// at its end. It belongs to the slice that lies there at this time.
void TraceWriter::flow(const char *phase, int thread, int64_t when) {
  event(std::string("{\"ph\":\"") + phase + "\"," + process +
        ",\"tid\":" + std::to_string(thread) + ",\"ts\":" + time(when) +
        ",\"cat\":\"transfer\",\"name\":\"transfer\",\"bp\":\"e\",\"id\":" +
        std::to_string(flows) + "}");
}

std::string TraceWriter::dynamicArguments(const ProfileRecord &record) const {
  const ProfileRun &run = profile->runs[record.run];
  return "\"step\":" + std::to_string(run.step) +
         ",\"micro_batch\":" + std::to_string(run.microBatch) +
         ",\"program\":" + quote(plan.programs[run.program]->name) +
         ",\"instruction\":" + std::to_string(record.instruction) +
         (record.idle == 0 ? ""
                           : ",\"busy_us\":" + microseconds(record.busy()));
}

void TraceWriter::writeSteps() {
  for (const ProfileStep &step : profile->steps)
    slice(kComputeThread, "\"step " + std::to_string(step.step) + "\"", "step",
          step.begin, step.end, "\"step\":" + std::to_string(step.step));
  for (const ProfileRun &run : profile->runs) {
    std::string arguments =
        "\"step\":" + std::to_string(run.step) +
        ",\"micro_batch\":" + std::to_string(run.microBatch);
    slice(kComputeThread, quote(plan.programs[run.program]->name), "program",
          run.begin, run.end, arguments);
    slice(kComputeThread, "\"inputs\"", "inputs", run.begin, run.loaded,
          arguments);
  }
}

/// Where a transfer lies on its stream: when it moved, or if nobody knows, from
/// its start to the end of its wait.
std::pair<int64_t, int64_t>
TraceWriter::findSlice(const RecordedTransfer &transfer) const {
  if (!transfer.move)
    return {profile->records[transfer.start].begin,
            profile->records[transfer.wait].end};
  const ProfileRecord &move = profile->moves[*transfer.move];
  return {move.begin, move.end};
}

void TraceWriter::writeTransfers(int rank) {
  // Transfers of one stream that overlap are put on threads of their own, since
  // slices of one thread may only lie within each other.
  std::map<std::pair<plan::Stream, std::string>, std::vector<int64_t>> ends;
  struct Placed {
    RecordedTransfer transfer;
    const Activity *activity;
    Track track;
  };
  std::vector<Placed> all;
  std::map<Track, int> threads;
  for (const RecordedTransfer &transfer : findTransfers(activities, *profile)) {
    const ProfileRecord &start = profile->records[transfer.start];
    const Activity &activity =
        activities[profile->runs[start.run].program][start.instruction];
    auto [begin, end] = findSlice(transfer);
    std::vector<int64_t> &lanes = ends[{activity.stream, activity.group}];
    size_t lane = 0;
    while (lane < lanes.size() && lanes[lane] > begin)
      ++lane;
    if (lane == lanes.size())
      lanes.emplace_back();
    lanes[lane] = end;
    Track track{activity.stream, activity.group, lane};
    threads[track];
    all.push_back({transfer, &activity, track});
  }
  int next = kComputeThread;
  for (auto &[track, thread] : threads) {
    thread = ++next;
    auto &[stream, group, lane] = track;
    name("thread_name", thread,
         std::string(plan::EnumNameStream(stream)) +
             (group.empty() ? "" : " " + group) +
             (lane == 0 ? "" : " (" + std::to_string(lane + 1) + ")"),
         "thread_sort_index", thread);
  }
  for (const Placed &placed : all) {
    const ProfileRecord &start = profile->records[placed.transfer.start];
    const ProfileRecord &wait = profile->records[placed.transfer.wait];
    int thread = threads[placed.track];
    auto [begin, end] = findSlice(placed.transfer);
    slice(thread,
          quote(placed.activity->collective + " " + placed.activity->bucket),
          "transfer", begin, end,
          texts[profile->runs[start.run].program][start.instruction].second +
              "\"start_us\":" + microseconds(start.end - start.begin) +
              ",\"exposed_us\":" + microseconds(wait.end - wait.begin) +
              (placed.transfer.move
                   ? ",\"moves_us\":" + microseconds(end - begin)
                   : "") +
              "," + dynamicArguments(start));
    ++flows;
    flow("s", kComputeThread, start.begin);
    flow("t", thread, begin);
    flow("f", kComputeThread, wait.begin);
  }
}

void TraceWriter::writeRank(int rank) {
  profile = &profiles[static_cast<size_t>(rank)];
  process = "\"pid\":" + std::to_string(rank);
  name("process_name", kComputeThread,
       "rank " + std::to_string(rank) + " on " + profile->host,
       "process_sort_index", rank);
  name("thread_name", kComputeThread, "compute", "thread_sort_index",
       kComputeThread);
  if (profile->isOnDevice)
    event("{\"ph\":\"M\"," + process + ",\"name\":\"process_labels\"," +
          "\"args\":{\"labels\":" + quote(plan.training->device) + "}}");
  writeSteps();
  static constexpr const char *kCategories[] = {"compute", "start", "wait"};
  for (const ProfileRecord &record : profile->records) {
    uint32_t program = profile->runs[record.run].program;
    const Activity &activity = activities[program][record.instruction];
    const auto &[label, arguments] = texts[program][record.instruction];
    slice(kComputeThread, label, kCategories[static_cast<int>(activity.kind)],
          record.begin, record.end, arguments + dynamicArguments(record));
  }
  writeTransfers(rank);
}

std::string TraceWriter::numbers(const ProfileSummary &summary) const {
  auto us = [](int64_t time) { return static_cast<double>(time) / 1e3; };
  nlohmann::ordered_json all;
  all["steps"] = summary.steps;
  for (size_t i = 0; i < summary.ranks.size(); ++i) {
    const TimeShares &each = summary.ranks[i];
    all["ranks"].push_back(
        {{"rank", i},
         {"host", profiles[i].host},
         {"clock_uncertainty_us", us(profiles[i].clockUncertainty)},
         {"lost_activities", profiles[i].lost},
         {"step_us", us(each.step)},
         {"compute_us", us(each.compute)},
         {"exposed_us", us(each.exposed)},
         {"starts_us", us(each.starts)},
         {"inputs_us", us(each.inputs)},
         {"other_us", us(each.other)}});
  }
  for (const OperatorTime &each : summary.operators)
    all["operators"].push_back({{"name", each.name},
                                {"calls", each.calls},
                                {"time_us", us(each.time)}});
  for (const auto &[bucket, kinds] : summary.buckets)
    for (const auto &[kind, each] : kinds)
      all["transfers"].push_back({{"bucket", bucket},
                                  {"kind", kind},
                                  {"calls", each.calls},
                                  {"bytes", each.bytes},
                                  {"in_flight_us", us(each.inFlight)},
                                  {"exposed_us", us(each.exposed)},
                                  {"moving_us", us(each.moving)}});

  return all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void TraceWriter::write(const ProfileSummary &summary) {
  describeOnce();
  zero = std::numeric_limits<int64_t>::max();
  for (const RankProfile &each : profiles)
    for (const ProfileStep &step : each.steps)
      zero = std::min(zero, step.begin);
  buffer = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (size_t rank = 0; rank < profiles.size(); ++rank)
    writeRank(static_cast<int>(rank));
  // A key of our own, and the last one: viewers end there. What stands in
  // otherData Perfetto wants to have whole in one piece of the file.
  buffer += "\n],\"fsdp\":" + numbers(summary) + "}\n";
  flush();
  file.commit();
}

void fsdp::writeTrace(const std::string &path, const plan::PlanT &plan,
                      const std::vector<std::vector<Activity>> &activities,
                      const std::vector<RankProfile> &profiles,
                      const ProfileSummary &summary) {
  TraceWriter(path, plan, activities, profiles).write(summary);
}
