//===- Cupti.cpp - A GPU's activities, by CUPTI ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/Cupti.h"

#include "runtime/profile/Recorder.h"
#include "support/Error.h"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <dlfcn.h>

using namespace fsdp;

namespace {

/// As CUPTI recommends, and asks of a buffer.
constexpr size_t kBufferBytes = size_t(8) << 20;
constexpr size_t kAlignment = 8;

constexpr CUpti_ExternalCorrelationKind kMarks =
    CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

/// Marks are of calls, and calls of work: none comes without the other two.
/// NCCL calls the driver itself.
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMCPY2,
    CUPTI_ACTIVITY_KIND_MEMSET};

class CuptiActivities final : public DeviceActivities {
public:
  CuptiActivities(const CuptiFunctions &cupti, std::function<void()> drain)
      : cupti(cupti), drain(std::move(drain)) {}
  ~CuptiActivities() override;

  void begin() override;
  void end() override;
  void enter(uint64_t mark) override {
    check(cupti.ActivityPushExternalCorrelationId(kMarks, mark),
          "cuptiActivityPushExternalCorrelationId");
  }
  void leave() noexcept override {
    // Fails only if nothing was pushed.
    (void)cupti.ActivityPopExternalCorrelationId(kMarks, nullptr);
  }
  DeviceListing list() override;

private:
  struct Work {
    int64_t begin, end;
    uint32_t call;
  };

  static void giveBuffer(uint8_t **buffer, size_t *size, size_t *maxRecords);
  static void takeBuffer(CUcontext context, uint32_t stream, uint8_t *buffer,
                         size_t size, size_t validSize);
  static uint64_t readClock() {
    return static_cast<uint64_t>(ProfileRecorder::now());
  }

  void read(uint8_t *buffer, size_t validSize);
  void add(const CUpti_Activity *record);
  template <typename Record>
  void addWork(const CUpti_Activity *record);
  void disable() noexcept;
  void stop() noexcept;
  void forget();
  void check(CUptiResult result, const char *call) const;

  /// That which gets the buffers.
  static std::atomic<CuptiActivities *> current;

  const CuptiFunctions &cupti;
  const std::function<void()> drain;
  std::mutex mutex; ///< of `users`
  int users = 0;
  bool isOver = false;     ///< nothing more is listed
  std::mutex recordsMutex; ///< of all below; CUPTI has threads of its own
  std::vector<Work> works;
  std::unordered_map<uint32_t, uint64_t> marks; ///< by call
  std::unordered_map<uint32_t, int64_t> calls;  ///< when they began
  uint64_t lost = 0;
};

} // namespace

std::atomic<CuptiActivities *> CuptiActivities::current = nullptr;

void CuptiActivities::check(CUptiResult result, const char *call) const {
  if (result == CUPTI_SUCCESS)
    return;
  const char *text = nullptr;
  if (cupti.GetResultString(result, &text) != CUPTI_SUCCESS || !text)
    text = "an unknown error";
  std::string hint;
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
    hint = "; another profiler looks at the process: end that, or run without "
           "--profile";
  else if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)
    hint = "; the driver lets nobody but root profile";
  throw Error(ErrorId::DeviceFailed,
              std::string("--profile: ") + call + " failed: " + text + hint);
}

void CuptiActivities::giveBuffer(uint8_t **buffer, size_t *size,
                                 size_t *maxRecords) {
  *buffer =
      static_cast<uint8_t *>(std::aligned_alloc(kAlignment, kBufferBytes));
  *size = *buffer ? kBufferBytes : 0;
  *maxRecords = 0; // as many as there is room for
}

void CuptiActivities::takeBuffer(CUcontext, uint32_t, uint8_t *buffer, size_t,
                                 size_t validSize) {
  if (CuptiActivities *mine = current.load())
    mine->read(buffer, validSize);
  std::free(buffer);
}

template <typename Record>
void CuptiActivities::addWork(const CUpti_Activity *record) {
  auto *work = reinterpret_cast<const Record *>(record);
  // CUPTI's way to say that it had no memory for the times.
  if (work->start == 0 || work->end == 0)
    ++lost;
  else
    works.push_back({static_cast<int64_t>(work->start),
                     static_cast<int64_t>(work->end), work->correlationId});
}

void CuptiActivities::add(const CUpti_Activity *record) {
  switch (record->kind) {
  case CUPTI_ACTIVITY_KIND_KERNEL:
  case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    return addWork<CUpti_ActivityKernel10>(record);
  case CUPTI_ACTIVITY_KIND_MEMCPY:
    return addWork<CUpti_ActivityMemcpy6>(record);
  case CUPTI_ACTIVITY_KIND_MEMCPY2:
    return addWork<CUpti_ActivityMemcpyPtoP4>(record);
  case CUPTI_ACTIVITY_KIND_MEMSET:
    return addWork<CUpti_ActivityMemset4>(record);
  case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
    auto *mark =
        reinterpret_cast<const CUpti_ActivityExternalCorrelation *>(record);
    if (mark->externalKind == kMarks)
      marks[mark->correlationId] = mark->externalId;
    return;
  }
  case CUPTI_ACTIVITY_KIND_RUNTIME:
  case CUPTI_ACTIVITY_KIND_DRIVER: {
    auto *call = reinterpret_cast<const CUpti_ActivityAPI *>(record);
    calls[call->correlationId] = static_cast<int64_t>(call->start);
    return;
  }
  default:
    return;
  }
}

void CuptiActivities::read(uint8_t *buffer, size_t validSize) {
  std::lock_guard lock(recordsMutex);
  CUpti_Activity *record = nullptr;
  CUptiResult result = CUPTI_SUCCESS;
  while (validSize > 0 && (result = cupti.ActivityGetNextRecord(
                               buffer, validSize, &record)) == CUPTI_SUCCESS)
    add(record);
  // One that is not complete ends the buffer.
  if (validSize > 0 && result != CUPTI_ERROR_MAX_LIMIT_REACHED)
    ++lost;
  size_t dropped = 0;
  if (cupti.ActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS)
    lost += dropped;
}

void CuptiActivities::disable() noexcept {
  for (CUpti_ActivityKind kind : kKinds)
    (void)cupti.ActivityDisable(kind);
}

void CuptiActivities::stop() noexcept {
  disable();
  // What is under way has nobody to go to.
  (void)cupti.ActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  current = nullptr;
}

void CuptiActivities::forget() {
  std::lock_guard lock(recordsMutex);
  works = {};
  marks = {};
  calls = {};
  lost = 0;
}

void CuptiActivities::begin() {
  std::lock_guard lock(mutex);
  if (users > 0) {
    ++users;
    return;
  }
  CuptiActivities *other = nullptr;
  if (!current.compare_exchange_strong(other, this))
    throw Error(ErrorId::RuntimeUnsupported,
                "--profile: expected one profile of the process's GPUs at a "
                "time, found another one; profile one run after the other");
  try {
    uint32_t version = 0;
    check(cupti.GetVersion(&version), "cuptiGetVersion");
    if (version < CUPTI_API_VERSION)
      throw Error(ErrorId::RuntimeUnsupported,
                  "--profile: expected CUPTI of API version " +
                      std::to_string(CUPTI_API_VERSION) + " or later, found " +
                      std::to_string(version) +
                      "; run with the LibTorch that fsdp-run was built with");
    // The recorder's clock, which has to be told before anything is enabled.
    check(cupti.ActivityRegisterTimestampCallback(readClock),
          "cuptiActivityRegisterTimestampCallback");
    check(cupti.ActivityRegisterCallbacks(giveBuffer, takeBuffer),
          "cuptiActivityRegisterCallbacks");
    for (CUpti_ActivityKind kind : kKinds)
      check(cupti.ActivityEnable(kind), "cuptiActivityEnable");
  } catch (...) {
    stop();
    throw;
  }
  users = 1;
  isOver = false;
}

void CuptiActivities::end() {
  std::lock_guard lock(mutex);
  if (users == 0 || --users > 0)
    return;
  stop();
  forget();
}

CuptiActivities::~CuptiActivities() {
  if (users > 0)
    stop();
}

DeviceListing CuptiActivities::list() {
  std::lock_guard lock(mutex);
  if (!isOver) {
    drain();
    // A buffer comes when all of its records are complete: no thread may be in
    // a call that is listed. What is left then are buffers of such calls.
    disable();
    isOver = true;
    check(cupti.ActivityFlushAll(0), "cuptiActivityFlushAll");
    check(cupti.ActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED),
          "cuptiActivityFlushAll");
  }
  std::lock_guard records(recordsMutex);
  DeviceListing listing;
  listing.lost = lost;
  listing.activities.reserve(works.size());
  for (const Work &work : works) {
    auto mark = marks.find(work.call);
    auto call = calls.find(work.call);
    listing.activities.push_back(
        {work.begin, work.end, call == calls.end() ? 0 : call->second,
         mark != marks.end(), mark == marks.end() ? 0 : mark->second});
  }
  return listing;
}

const CuptiFunctions &fsdp::loadCupti() {
  static const CuptiFunctions functions = [] {
    // LibTorch's libraries need it, so it is in the process already.
    void *library = dlopen(FSDP_CUPTI_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char *reason = dlerror();
      throw Error(ErrorId::RuntimeUnsupported,
                  std::string("--profile on a GPU needs CUPTI, and " +
                              std::string(FSDP_CUPTI_LIBRARY) +
                              " cannot be loaded: ") +
                      (reason ? reason : "unknown") +
                      "; install nvidia-cuda-cupti beside LibTorch, or put its "
                      "folder on LD_LIBRARY_PATH");
    }
    CuptiFunctions found{};
    auto find = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          dlsym(library, name));
      if (!function)
        throw Error(
            ErrorId::RuntimeUnsupported,
            std::string("--profile: expected " FSDP_CUPTI_LIBRARY " to have ") +
                name +
                ", found none; run with the LibTorch that "
                "fsdp-run was built with");
    };
#define FIND(name) find(found.name, "cupti" #name)
    FIND(GetVersion);
    FIND(GetResultString);
    FIND(ActivityRegisterTimestampCallback);
    FIND(ActivityRegisterCallbacks);
    FIND(ActivityEnable);
    FIND(ActivityDisable);
    FIND(ActivityFlushAll);
    FIND(ActivityGetNextRecord);
    FIND(ActivityGetNumDroppedRecords);
    FIND(ActivityPushExternalCorrelationId);
    FIND(ActivityPopExternalCorrelationId);
#undef FIND
    return found;
  }();
  return functions;
}

std::unique_ptr<DeviceActivities>
fsdp::makeCuptiActivities(const CuptiFunctions &cupti,
                          std::function<void()> drain) {
  return std::make_unique<CuptiActivities>(cupti, std::move(drain));
}
