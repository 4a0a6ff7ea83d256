//===- Summary.cpp - Where the time of a profile went ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/profile/Summary.h"

#include "support/Format.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <unordered_map>

using namespace fsdp;

static constexpr size_t kMostRanks = 16, kMostOperators = 10, kMostBuckets = 16;

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

namespace {

class Summarizer {
public:
  explicit Summarizer(const std::vector<std::vector<Activity>> &activities)
      : activities(activities) {}

  void add(const RankProfile &profile);
  ProfileSummary finish();

private:
  const Activity &activityOf(const RankProfile &profile,
                             const ProfileRecord &record) const {
    return activities[profile.runs[record.run].program][record.instruction];
  }
  void addTransfers(const RankProfile &profile);
  TransferTime &transferTime(const Activity &activity);

  const std::vector<std::vector<Activity>> &activities;
  ProfileSummary summary;
  std::unordered_map<std::string, OperatorTime> operators;
  std::unordered_map<std::string, size_t> buckets; ///< places in the summary
};

} // namespace

void Summarizer::add(const RankProfile &profile) {
  TimeShares shares;
  for (const ProfileStep &step : profile.steps)
    shares.step += step.end - step.begin;
  for (const ProfileRun &run : profile.runs)
    shares.inputs += run.loaded - run.begin;
  for (const ProfileRecord &record : profile.records) {
    const Activity &activity = activityOf(profile, record);
    int64_t time = record.busy();
    switch (activity.kind) {
    case Activity::Kind::start:
      shares.starts += time;
      break;
    case Activity::Kind::wait:
      shares.exposed += time;
      break;
    case Activity::Kind::compute: {
      shares.compute += time;
      OperatorTime &entry = operators[activity.name];
      ++entry.calls;
      entry.time += time;
      break;
    }
    }
  }
  shares.other = shares.step - shares.compute - shares.exposed - shares.starts -
                 shares.inputs;
  summary.ranks.push_back(shares);
  summary.isOnDevice |= profile.isOnDevice;
  addTransfers(profile);
  if (summary.steps.empty())
    for (const ProfileStep &step : profile.steps)
      summary.steps.push_back(step.step);
}

TransferTime &Summarizer::transferTime(const Activity &activity) {
  auto [found, isNew] =
      buckets.try_emplace(activity.bucket, summary.buckets.size());
  if (isNew)
    summary.buckets.emplace_back().first = activity.bucket;
  return summary.buckets[found->second].second[activity.collective];
}

void Summarizer::addTransfers(const RankProfile &profile) {
  for (const RecordedTransfer &transfer : findTransfers(activities, profile)) {
    const ProfileRecord &start = profile.records[transfer.start];
    const ProfileRecord &wait = profile.records[transfer.wait];
    const Activity &activity = activityOf(profile, start);
    TransferTime &entry = transferTime(activity);
    ++entry.calls;
    entry.bytes += activity.bytes;
    entry.inFlight += wait.end - start.begin;
    entry.exposed += wait.end - wait.begin;
    if (transfer.move) {
      const ProfileRecord &move = profile.moves[*transfer.move];
      entry.moving += move.end - move.begin;
    }
  }
}

ProfileSummary Summarizer::finish() {
  for (auto &[name, time] : operators) {
    time.name = name;
    summary.operators.push_back(time);
  }
  std::ranges::sort(summary.operators, [](const auto &a, const auto &b) {
    return a.time != b.time ? a.time > b.time : a.name < b.name;
  });
  return std::move(summary);
}

ProfileSummary
fsdp::summarizeProfile(const std::vector<std::vector<Activity>> &activities,
                       const std::vector<RankProfile> &profiles) {
  Summarizer summarizer(activities);
  for (const RankProfile &profile : profiles)
    summarizer.add(profile);
  return summarizer.finish();
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

namespace {

/// Rows of cells; the first column is flush left, the others right.
class Table {
public:
  explicit Table(std::vector<std::string> head) { add(std::move(head)); }
  void add(std::vector<std::string> row) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
    rows.push_back(std::move(row));
  }
  std::string print() const {
    std::string text;
    for (const auto &row : rows) {
      for (size_t i = 0; i < row.size(); ++i) {
        std::string room(widths[i] - row[i].size(), ' ');
        text += i == 0 ? row[i] + (row.size() == 1 ? "" : room)
                       : "  " + room + row[i];
      }
      text.resize(text.find_last_not_of(' ') + 1);
      text += "\n";
    }
    return text;
  }

private:
  std::vector<std::vector<std::string>> rows;
  std::vector<size_t> widths;
};

std::string format(const char *pattern, double value) {
  char text[32];
  std::snprintf(text, sizeof(text), pattern, value);
  return text;
}

class Printer {
public:
  explicit Printer(const ProfileSummary &summary)
      : summary(summary), steps(static_cast<double>(summary.steps.size())),
        rankSteps(steps * static_cast<double>(summary.ranks.size())) {}

  std::string run() const { return ranks() + operators() + buckets(); }

private:
  std::string ranks() const;
  std::string operators() const;
  std::string buckets() const;
  static std::string milliseconds(int64_t time, double count) {
    return format("%.3f", static_cast<double>(time) / count / 1e6);
  }
  static std::string percent(int64_t part, int64_t whole) {
    return whole == 0 ? ""
                      : format("%.1f %%", 100 * static_cast<double>(part) /
                                              static_cast<double>(whole));
  }
  static std::vector<std::string> row(const std::string &name,
                                      const TimeShares &shares, double count);
  TimeShares all() const;

  const ProfileSummary &summary;
  const double steps, rankSteps;
};

} // namespace

TimeShares Printer::all() const {
  TimeShares sum;
  for (const TimeShares &each : summary.ranks) {
    sum.step += each.step;
    sum.compute += each.compute;
    sum.exposed += each.exposed;
    sum.starts += each.starts;
    sum.inputs += each.inputs;
    sum.other += each.other;
  }
  return sum;
}

std::vector<std::string> Printer::row(const std::string &name,
                                      const TimeShares &shares, double count) {
  std::vector<std::string> cells{name, milliseconds(shares.step, count)};
  for (int64_t part : {shares.compute, shares.exposed, shares.starts,
                       shares.inputs, shares.other}) {
    cells.push_back(milliseconds(part, count));
    cells.push_back(percent(part, shares.step));
  }
  return cells;
}

std::string Printer::ranks() const {
  Table table({"rank", "step ms", "compute", "", "exposed", "", "starts", "",
               "inputs", "", "other", ""});
  // Of many ranks those that have most and least to do.
  std::vector<size_t> order(summary.ranks.size());
  std::iota(order.begin(), order.end(), 0);
  bool isCut = order.size() > kMostRanks;
  if (isCut)
    std::ranges::stable_sort(order, [&](size_t a, size_t b) {
      return summary.ranks[a].compute > summary.ranks[b].compute;
    });
  for (size_t i = 0; i < order.size(); ++i) {
    if (isCut && i == kMostRanks / 2) {
      i = order.size() - kMostRanks / 2;
      table.add({"…"});
    }
    table.add(row(std::to_string(order[i]), summary.ranks[order[i]], steps));
  }
  if (summary.ranks.size() > 1)
    table.add(row("mean", all(), rankSteps));
  return table.print();
}

std::string Printer::operators() const {
  Table table({"operator", "calls", "ms", "of the step"});
  int64_t step = all().step, rest = 0;
  for (size_t i = 0; i < summary.operators.size(); ++i) {
    const OperatorTime &each = summary.operators[i];
    if (i >= kMostOperators) {
      rest += each.time;
      continue;
    }
    table.add({each.name,
               format("%g", static_cast<double>(each.calls) / rankSteps),
               milliseconds(each.time, rankSteps), percent(each.time, step)});
  }
  if (summary.operators.size() > kMostOperators)
    table.add(
        {std::to_string(summary.operators.size() - kMostOperators) + " more",
         "", milliseconds(rest, rankSteps), percent(rest, step)});
  return "\n" + table.print();
}

std::string Printer::buckets() const {
  if (summary.buckets.empty())
    return "";
  struct Row {
    const std::string *bucket, *kind;
    const TransferTime *time;
  };
  std::vector<Row> rows;
  for (const auto &[bucket, kinds] : summary.buckets)
    for (const auto &[kind, time] : kinds)
      rows.push_back({&bucket, &kind, &time});
  size_t count = rows.size();
  if (count > kMostBuckets) {
    std::ranges::stable_sort(rows, [](const Row &a, const Row &b) {
      return a.time->exposed > b.time->exposed;
    });
    rows.resize(kMostBuckets);
  }
  std::vector<std::string> head{"bucket",       "",           "calls", "bytes",
                                "in flight ms", "exposed ms", "hidden"};
  if (summary.isOnDevice)
    head.emplace_back("moves ms");
  Table table(std::move(head));
  for (const Row &row : rows) {
    std::vector<std::string> cells{
        *row.bucket,
        *row.kind,
        format("%g", static_cast<double>(row.time->calls) / rankSteps),
        formatBytes(static_cast<uint64_t>(static_cast<double>(row.time->bytes) /
                                          rankSteps)),
        milliseconds(row.time->inFlight, rankSteps),
        milliseconds(row.time->exposed, rankSteps),
        percent(row.time->inFlight - row.time->exposed, row.time->inFlight)};
    if (summary.isOnDevice)
      cells.push_back(milliseconds(row.time->moving, rankSteps));
    table.add(std::move(cells));
  }
  if (count > rows.size())
    table.add({std::to_string(count - rows.size()) + " with less exposed"});
  return "\n" + table.print();
}

std::string fsdp::printSummary(const ProfileSummary &summary) {
  return Printer(summary).run();
}
