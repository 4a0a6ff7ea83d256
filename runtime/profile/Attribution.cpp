//===- Attribution.cpp - Which instruction a device worked for ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/profile/Attribution.h"

#include "plan/Instructions.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

using namespace fsdp;

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct Span {
  int64_t begin, end;
};

class Attributor {
public:
  Attributor(const plan::PlanT &plan,
             const std::vector<std::vector<Activity>> &words,
             const ProfileRecorder &recorder, int rank,
             const DeviceListing &listing);
  RankProfile run();

private:
  void mark(const DeviceListing &listing);
  const std::vector<Span> *find(int ofRank, uint32_t run,
                                uint32_t instruction) const;
  const std::vector<Span> *findMove(uint32_t run, uint32_t instruction) const;
  void walk(uint32_t number, ProfileRun &run);
  std::vector<int64_t> nextBegins(uint32_t number, uint32_t program) const;
  void compute(uint32_t run, uint32_t instruction);
  void record(uint32_t run, uint32_t instruction, int64_t begin, int64_t end,
              int64_t idle = 0);

  const plan::PlanT &plan;
  const std::vector<std::vector<Activity>> &words;
  const ProfileRecorder &recorder;
  const int rank;
  std::map<uint64_t, std::vector<Span>> marked; ///< ascending, of all ranks
  /// By run and instruction.
  std::map<std::pair<uint32_t, uint32_t>, Span> onHost;
  RankProfile result;
  int64_t cursor = 0; ///< up to which the lane is filled
};

} // namespace

Attributor::Attributor(const plan::PlanT &plan,
                       const std::vector<std::vector<Activity>> &words,
                       const ProfileRecorder &recorder, int rank,
                       const DeviceListing &listing)
    : plan(plan), words(words), recorder(recorder), rank(rank) {
  for (size_t i = 0; i < recorder.recordCount(); ++i) {
    const ProfileRecord &each = recorder.records()[i];
    onHost[{each.run, each.instruction}] = {each.begin, each.end};
  }
  mark(listing);
  result.isOnDevice = true;
  result.lost = listing.lost;
  result.steps = recorder.steps();
  result.runs = recorder.runs();
}

void Attributor::mark(const DeviceListing &listing) {
  // The host does one thing at a time, so its starts do not overlap.
  std::map<int64_t, std::pair<int64_t, uint64_t>> starts; // by begin
  for (const auto &[key, span] : onHost) {
    auto [run, instruction] = key;
    if (words[recorder.runs()[run].program][instruction].kind ==
        Activity::Kind::start)
      starts[span.begin] = {
          span.end,
          DeviceMark{static_cast<uint32_t>(rank), run, instruction}.pack()};
  }
  for (const DeviceActivity &each : listing.activities) {
    if (each.isMarked) {
      marked[each.mark].push_back({each.begin, each.end});
      continue;
    }
    auto behind = starts.upper_bound(each.asked);
    if (behind == starts.begin())
      continue;
    const auto &[end, mark] = std::prev(behind)->second;
    if (each.asked <= end)
      marked[mark].push_back({each.begin, each.end});
  }
  for (auto &[mark, spans] : marked)
    std::ranges::sort(spans, {}, &Span::begin);
}

const std::vector<Span> *Attributor::find(int ofRank, uint32_t run,
                                          uint32_t instruction) const {
  auto found = marked.find(
      DeviceMark{static_cast<uint32_t>(ofRank), run, instruction}.pack());
  return found == marked.end() ? nullptr : &found->second;
}

/// The work of a transfer, whoever of the rank's group put it on the device.
const std::vector<Span> *Attributor::findMove(uint32_t run,
                                              uint32_t instruction) const {
  if (const std::vector<Span> *own = find(rank, run, instruction))
    return own;
  const plan::ProgramT &program = *plan.programs[recorder.runs()[run].program];
  const plan::TransferT *start = transferOf(*program.instructions[instruction]);
  if (!start)
    return nullptr;
  const plan::GroupT &group = *plan.groups[start->group];
  int stride = static_cast<int>(group.stride);
  int size = static_cast<int>(group.size);
  int first = rank - rank / stride % size * stride;
  for (int i = 0; i < size; ++i)
    if (const std::vector<Span> *its =
            find(first + i * stride, run, instruction))
      return its;
  return nullptr;
}

void Attributor::record(uint32_t run, uint32_t instruction, int64_t begin,
                        int64_t end, int64_t idle) {
  result.records.push_back({begin, end, instruction, run, idle});
  cursor = end;
}

void Attributor::compute(uint32_t run, uint32_t instruction) {
  if (const std::vector<Span> *work = find(rank, run, instruction)) {
    int64_t begin = std::max(work->front().begin, cursor);
    int64_t at = begin, busy = 0;
    for (const Span &span : *work) {
      busy += std::max<int64_t>(0, span.end - std::max(span.begin, at));
      at = std::max(at, span.end);
    }
    return record(run, instruction, begin, at, at - begin - busy);
  }
  if (auto found = onHost.find({run, instruction}); found != onHost.end()) {
    int64_t begin = std::max(found->second.begin, cursor);
    record(run, instruction, begin, std::max(found->second.end, begin));
  }
}

/// By instruction: when the stream next has something to do behind it.
std::vector<int64_t> Attributor::nextBegins(uint32_t number,
                                            uint32_t program) const {
  const std::vector<Activity> &each = words[program];
  std::vector<int64_t> next(each.size(), kNever);
  int64_t last = kNever;
  for (size_t i = each.size(); i-- > 0;) {
    next[i] = last;
    if (each[i].kind == Activity::Kind::compute)
      if (const std::vector<Span> *work =
              find(rank, number, static_cast<uint32_t>(i)))
        last = std::min(last, work->front().begin);
  }
  return next;
}

void Attributor::walk(uint32_t number, ProfileRun &run) {
  // The host may be ahead of the device.
  run.begin = std::max(run.begin, cursor);
  run.loaded = std::max(run.loaded, run.begin);
  if (const std::vector<Span> *inputs = find(rank, number, DeviceMark::kInputs))
    for (const Span &span : *inputs)
      run.loaded = std::max(run.loaded, span.end);
  cursor = run.loaded;
  std::vector<int64_t> next = nextBegins(number, run.program);
  std::map<uint32_t, int64_t> over; // by future
  const std::vector<Activity> &each = words[run.program];
  for (uint32_t i = 0; i < each.size(); ++i) {
    switch (each[i].kind) {
    case Activity::Kind::compute:
      compute(number, i);
      break;
    case Activity::Kind::start: {
      record(number, i, cursor, cursor);
      over[each[i].future] = cursor;
      if (const std::vector<Span> *work = findMove(number, i)) {
        int64_t end = std::ranges::max_element(*work, {}, &Span::end)->end;
        result.moves.push_back({work->front().begin, end, i, number});
        over[each[i].future] = end;
      }
      break;
    }
    case Activity::Kind::wait: {
      int64_t end = std::min(over[each[i].future], next[i]);
      record(number, i, cursor, std::max(cursor, end));
      break;
    }
    }
  }
  run.end = cursor;
}

RankProfile Attributor::run() {
  for (uint32_t i = 0; i < result.runs.size(); ++i)
    walk(i, result.runs[i]);
  return std::move(result);
}

RankProfile fsdp::attributeActivities(
    const plan::PlanT &plan, const std::vector<std::vector<Activity>> &words,
    const ProfileRecorder &recorder, int rank, const DeviceListing &listing) {
  return Attributor(plan, words, recorder, rank, listing).run();
}
