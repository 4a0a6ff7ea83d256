//===- gaps.cpp - Lists what a process lets the GPU do --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A library that the driver loads into any process:
//
//   CUDA_INJECTION64_PATH=libfsdp-gaps.so FSDP_GAPS=/tmp/gaps fsdp-run …
//
// writes /tmp/gaps.PID with a line for each kernel, copy and fill, also those
// of CUDA graphs: kind, begin and end in nanoseconds, name, with tabs between
// them. gaps.py reads it. Nothing is written by processes that use no GPU.
//
//===----------------------------------------------------------------------===//

#include <cupti.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include <unistd.h>

namespace {

constexpr size_t kBufferBytes = size_t(8) << 20;
/// What CUPTI asks of a buffer.
constexpr size_t kAlignment = 8;

/// The file; CUPTI calls from threads of its own. Never destroyed: they may
/// outlive static objects.
struct Listing {
  std::mutex mutex;
  std::string path;
  FILE *file = nullptr;

  void line(const char *kind, uint64_t begin, uint64_t end, const char *name) {
    if (open())
      std::fprintf(file, "%s\t%" PRIu64 "\t%" PRIu64 "\t%s\n", kind, begin, end,
                   name);
  }
  void dropped(size_t count) {
    if (open())
      std::fprintf(file, "dropped\t%zu\n", count);
  }
  bool open() {
    if (!file && !path.empty()) {
      file = std::fopen(path.c_str(), "we");
      if (!file) {
        std::fprintf(stderr, "gaps: '%s' cannot be written\n", path.c_str());
        path.clear();
      }
    }
    return file != nullptr;
  }
};

Listing &listing() {
  static Listing *only = new Listing;
  return *only;
}

bool works(CUptiResult result, const char *what) {
  if (result == CUPTI_SUCCESS)
    return true;
  const char *text = "";
  cuptiGetResultString(result, &text);
  std::fprintf(stderr, "gaps: %s failed: %s\n", what, text);
  return false;
}

const char *nameOfCopy(uint8_t kind) {
  switch (kind) {
  case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    return "from host";
  case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    return "to host";
  case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
    return "on the device";
  default:
    return "other";
  }
}

void list(const CUpti_Activity *record) {
  switch (record->kind) {
  case CUPTI_ACTIVITY_KIND_KERNEL:
  case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
    auto *kernel = reinterpret_cast<const CUpti_ActivityKernel10 *>(record);
    return listing().line("kernel", kernel->start, kernel->end,
                          kernel->name ? kernel->name : "?");
  }
  case CUPTI_ACTIVITY_KIND_MEMCPY: {
    auto *copy = reinterpret_cast<const CUpti_ActivityMemcpy6 *>(record);
    return listing().line("copy", copy->start, copy->end,
                          nameOfCopy(copy->copyKind));
  }
  case CUPTI_ACTIVITY_KIND_MEMSET: {
    auto *fill = reinterpret_cast<const CUpti_ActivityMemset4 *>(record);
    return listing().line("fill", fill->start, fill->end, "fill");
  }
  default:
    return;
  }
}

void CUPTIAPI giveBuffer(uint8_t **buffer, size_t *size, size_t *maxRecords) {
  *buffer =
      static_cast<uint8_t *>(std::aligned_alloc(kAlignment, kBufferBytes));
  *size = *buffer ? kBufferBytes : 0;
  *maxRecords = 0;
}

void CUPTIAPI takeBuffer(CUcontext context, uint32_t stream, uint8_t *buffer,
                         size_t, size_t validSize) {
  std::lock_guard lock(listing().mutex);
  CUpti_Activity *record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, validSize, &record) ==
         CUPTI_SUCCESS)
    list(record);
  size_t lost = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) ==
          CUPTI_SUCCESS &&
      lost != 0)
    listing().dropped(lost);
  std::free(buffer);
}

void finish() {
  works(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED),
        "cuptiActivityFlushAll");
  std::lock_guard lock(listing().mutex);
  if (listing().file)
    std::fflush(listing().file);
}

} // namespace

/// Called by the driver when it is initialised; not 0 means that it worked.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char *prefix = std::getenv("FSDP_GAPS");
  if (!prefix) {
    std::fprintf(stderr,
                 "gaps: FSDP_GAPS must be the begin of a file's path\n");
    return 1;
  }
  listing().path = std::string(prefix) + "." + std::to_string(getpid());
  if (!works(cuptiActivityRegisterCallbacks(giveBuffer, takeBuffer),
             "cuptiActivityRegisterCallbacks"))
    return 1;
  for (CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
        CUPTI_ACTIVITY_KIND_MEMSET})
    works(cuptiActivityEnable(kind), "cuptiActivityEnable");
  std::atexit(finish);
  return 1;
}
