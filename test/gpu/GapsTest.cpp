//===- GapsTest.cpp - The list of a GPU's activities, from made-up ones ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stands for CUPTI: gaps.cpp asks it to begin, gives it a buffer and is given
// that back with records in it.
//
//===----------------------------------------------------------------------===//

#include <cupti.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <sys/wait.h>
#include <unistd.h>

extern "C" int InitializeInjection();

static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static std::set<CUpti_ActivityKind> enabled;
static std::deque<CUpti_Activity *> records;
static size_t lost;

CUptiResult
cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc onRequest,
                               CUpti_BuffersCallbackCompleteFunc onComplete) {
  request = onRequest;
  complete = onComplete;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  enabled.insert(kind);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t *, size_t,
                                       CUpti_Activity **record) {
  if (records.empty())
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = records.front();
  records.pop_front();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t,
                                              size_t *dropped) {
  *dropped = lost;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  EXPECT_EQ(flag, uint32_t(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  uint8_t *buffer = nullptr;
  size_t size = 0, most = 1;
  request(&buffer, &size, &most);
  EXPECT_NE(buffer, nullptr);
  EXPECT_EQ(most, 0u) << "as many as there is room for";
  std::memset(buffer, 0xab, size);
  complete(nullptr, 0, buffer, size, size);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult, const char **text) {
  *text = "made up";
  return CUPTI_SUCCESS;
}

/// Ends a process that lists `records`; what was written.
static std::string listOfChild() {
  std::string prefix = testing::TempDir() + "fsdp-gaps-test";
  setenv("FSDP_GAPS", prefix.c_str(), /*replace=*/1);
  int pid = fork();
  if (pid == 0) {
    std::exit(InitializeInjection() == 1 && enabled.size() == 3 ? 0 : 1);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  std::string path = prefix + "." + std::to_string(pid);
  std::stringstream text;
  if (std::ifstream file(path); file)
    text << file.rdbuf();
  else
    text << "no file";
  std::filesystem::remove(path);
  return text.str();
}

TEST(Gaps, ListsKernelsCopiesAndFills) {
  CUpti_ActivityKernel10 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.start = 1000, kernel.end = 2000;
  kernel.name = "void add<float>(int, float)";
  CUpti_ActivityMemcpy6 copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  copy.start = 2100, copy.end = 2200;
  CUpti_ActivityMemset4 fill{};
  fill.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  fill.start = 18446744073709551614u, fill.end = 18446744073709551615u;
  records = {reinterpret_cast<CUpti_Activity *>(&kernel),
             reinterpret_cast<CUpti_Activity *>(&copy),
             reinterpret_cast<CUpti_Activity *>(&fill)};
  EXPECT_EQ(listOfChild(),
            "kernel\t1000\t2000\tvoid add<float>(int, float)\n"
            "copy\t2100\t2200\ton the device\n"
            "fill\t18446744073709551614\t18446744073709551615\tfill\n");
}

TEST(Gaps, SaysWhatWasDropped) {
  records.clear();
  lost = 7;
  EXPECT_EQ(listOfChild(), "dropped\t7\n");
  lost = 0;
}

TEST(Gaps, WritesNothingWithoutActivities) {
  records.clear();
  EXPECT_EQ(listOfChild(), "no file");
}
