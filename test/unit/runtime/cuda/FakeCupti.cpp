//===- FakeCupti.cpp - CUPTI without a GPU --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "FakeCupti.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

using namespace fsdp;
using namespace fsdp::test;

namespace {

/// A record that waits to be delivered.
struct Pending {
  std::vector<uint8_t> bytes;
  bool isComplete;
  uint32_t call;
};

/// What lies in a buffer: records, each with its size in front of it.
struct Head {
  uint32_t bytes;
  uint32_t isComplete;
};

FakeCupti *fake = nullptr;
std::mutex mutex;
std::deque<Pending> pending;
CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc give = nullptr;
CUpti_TimestampCallbackFunc timestamp = nullptr;
uint32_t calls = 0;
thread_local std::vector<uint64_t> marks;

template <typename Record>
void queue(const Record &record, bool isComplete, uint32_t call) {
  auto *bytes = reinterpret_cast<const uint8_t *>(&record);
  pending.push_back({{bytes, bytes + sizeof(record)}, isComplete, call});
}

template <typename Record>
void queueWork(CUpti_ActivityKind kind, uint64_t begin, uint64_t end) {
  Record record{};
  record.kind = kind;
  record.start = begin;
  record.end = end;
  record.correlationId = calls;
  queue(record, end != 0 || begin == 0, calls);
}

/// Where all records of a kind have their times.
template <typename Record>
bool setTimes(Pending &each, uint64_t begin, uint64_t end) {
  Record record;
  std::memcpy(&record, each.bytes.data(), sizeof(record));
  record.start = begin;
  record.end = end;
  std::memcpy(each.bytes.data(), &record, sizeof(record));
  return each.isComplete = true;
}

} // namespace

namespace fsdp::test {

struct FakeCuptiCalls {
  static CUptiResult getVersion(uint32_t *version) {
    *version = fake->version;
    return CUPTI_SUCCESS;
  }
  static CUptiResult getResultString(CUptiResult, const char **text) {
    *text = "made up";
    return CUPTI_SUCCESS;
  }
  static CUptiResult registerTimestamp(CUpti_TimestampCallbackFunc function) {
    EXPECT_TRUE(fake->enabled.empty())
        << "records before would have another clock";
    timestamp = function;
    return function ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
  }
  static CUptiResult
  registerCallbacks(CUpti_BuffersCallbackRequestFunc onRequest,
                    CUpti_BuffersCallbackCompleteFunc onComplete) {
    request = onRequest;
    give = onComplete;
    return CUPTI_SUCCESS;
  }
  static CUptiResult enable(CUpti_ActivityKind kind) {
    if (!request)
      return CUPTI_ERROR_NOT_INITIALIZED;
    if (fake->enabling == CUPTI_SUCCESS)
      fake->enabled.insert(kind);
    return fake->enabling;
  }
  static CUptiResult disable(CUpti_ActivityKind kind) {
    fake->enabled.erase(kind);
    return CUPTI_SUCCESS;
  }

  static CUptiResult flush(uint32_t flag) {
    if (!request)
      return CUPTI_ERROR_INVALID_OPERATION;
    std::lock_guard lock(mutex);
    // The last that came comes first: nothing is promised of the order.
    while (!pending.empty()) {
      bool isForced = flag == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED;
      std::vector<Pending> some;
      bool isComplete = true;
      for (int i = 0; i < 3 && !pending.empty(); ++i) {
        some.push_back(std::move(pending.back()));
        pending.pop_back();
        isComplete &= some.back().isComplete;
      }
      if (!isComplete && !isForced) {
        for (size_t i = some.size(); i-- > 0;)
          pending.push_back(std::move(some[i]));
        return CUPTI_SUCCESS;
      }
      deliver(some);
    }
    return CUPTI_SUCCESS;
  }

  static void deliver(const std::vector<Pending> &records) {
    uint8_t *buffer = nullptr;
    size_t size = 0, most = 1;
    request(&buffer, &size, &most);
    if (!buffer) {
      fake->dropped += records.size();
      return;
    }
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer) % 8, 0u);
    EXPECT_EQ(most, 0u) << "as many as there is room for";
    std::memset(buffer, 0xab, size);
    size_t used = 0;
    for (const Pending &each : records) {
      Head head{static_cast<uint32_t>((each.bytes.size() + 7) / 8 * 8),
                each.isComplete};
      ASSERT_LE(used + sizeof(head) + head.bytes, size);
      std::memcpy(buffer + used, &head, sizeof(head));
      std::memcpy(buffer + used + sizeof(head), each.bytes.data(),
                  each.bytes.size());
      used += sizeof(head) + head.bytes;
    }
    give(nullptr, 0, buffer, size, used);
  }

  static CUptiResult next(uint8_t *buffer, size_t valid,
                          CUpti_Activity **record) {
    if (!buffer)
      return CUPTI_ERROR_INVALID_PARAMETER;
    uint8_t *place = buffer;
    if (*record) {
      place = reinterpret_cast<uint8_t *>(*record);
      Head head;
      std::memcpy(&head, place - sizeof(head), sizeof(head));
      place += head.bytes;
    }
    if (place >= buffer + valid)
      return CUPTI_ERROR_MAX_LIMIT_REACHED;
    Head head;
    std::memcpy(&head, place, sizeof(head));
    if (!head.isComplete)
      return CUPTI_ERROR_INVALID_KIND;
    *record = reinterpret_cast<CUpti_Activity *>(place + sizeof(head));
    return CUPTI_SUCCESS;
  }
  static CUptiResult countDropped(CUcontext, uint32_t, size_t *dropped) {
    *dropped = std::exchange(fake->dropped, 0);
    return CUPTI_SUCCESS;
  }
  static CUptiResult push(CUpti_ExternalCorrelationKind kind, uint64_t id) {
    if (kind == CUPTI_EXTERNAL_CORRELATION_KIND_INVALID ||
        kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE)
      return CUPTI_ERROR_INVALID_PARAMETER;
    marks.push_back(id);
    return CUPTI_SUCCESS;
  }
  static CUptiResult pop(CUpti_ExternalCorrelationKind, uint64_t *last) {
    if (marks.empty())
      return CUPTI_ERROR_QUEUE_EMPTY;
    if (last)
      *last = marks.back();
    marks.pop_back();
    return CUPTI_SUCCESS;
  }
};

} // namespace fsdp::test

FakeCupti::FakeCupti()
    : table{FakeCuptiCalls::getVersion,
            FakeCuptiCalls::getResultString,
            FakeCuptiCalls::registerTimestamp,
            FakeCuptiCalls::registerCallbacks,
            FakeCuptiCalls::enable,
            FakeCuptiCalls::disable,
            FakeCuptiCalls::flush,
            FakeCuptiCalls::next,
            FakeCuptiCalls::countDropped,
            FakeCuptiCalls::push,
            FakeCuptiCalls::pop} {
  fake = this;
  pending.clear();
  request = nullptr;
  give = nullptr;
  timestamp = nullptr;
  calls = 0;
  marks.clear();
}

FakeCupti::~FakeCupti() {
  EXPECT_TRUE(marks.empty()) << "a mark outlived what it marked";
  fake = nullptr;
}

uint32_t FakeCupti::launch(CUpti_ActivityKind kind, uint64_t asked,
                           uint64_t begin, uint64_t end, bool byDriver) {
  std::lock_guard lock(mutex);
  ++calls;
  CUpti_ActivityKind api =
      byDriver ? CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME;
  if (enabled.contains(api)) {
    if (!marks.empty() &&
        enabled.contains(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) {
      CUpti_ActivityExternalCorrelation mark{};
      mark.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
      mark.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
      mark.externalId = marks.back();
      mark.correlationId = calls;
      queue(mark, true, calls);
      // Another tool's.
      mark.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1;
      mark.externalId = 12345;
      queue(mark, true, calls);
    }
    CUpti_ActivityAPI call{};
    call.kind = api;
    call.start = asked;
    call.end = asked + 1;
    call.correlationId = calls;
    queue(call, true, calls);
  }
  if (!enabled.contains(kind))
    return calls;
  if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
    queueWork<CUpti_ActivityKernel10>(kind, begin, end);
  else if (kind == CUPTI_ACTIVITY_KIND_MEMCPY)
    queueWork<CUpti_ActivityMemcpy6>(kind, begin, end);
  else if (kind == CUPTI_ACTIVITY_KIND_MEMCPY2)
    queueWork<CUpti_ActivityMemcpyPtoP4>(kind, begin, end);
  else if (kind == CUPTI_ACTIVITY_KIND_MEMSET)
    queueWork<CUpti_ActivityMemset4>(kind, begin, end);
  else
    ADD_FAILURE() << "no work is of kind " << kind;
  return calls;
}

void FakeCupti::complete(uint32_t call, uint64_t begin, uint64_t end) {
  std::lock_guard lock(mutex);
  for (Pending &each : pending)
    if (each.call == call && !each.isComplete)
      setTimes<CUpti_ActivityKernel10>(each, begin, end);
}
