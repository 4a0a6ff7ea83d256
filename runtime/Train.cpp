//===- Train.cpp - The training loop --------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/Train.h"

#include "runtime/Metrics.h"
#include "runtime/Progress.h"
#include "runtime/support/Error.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

#include <unistd.h>

using namespace fsdp;

using Clock = std::chrono::steady_clock;

/// Better refused now than after hours of training.
static void checkWritable(const std::string &path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty())
    folder = ".";
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw Error(
        ErrorId::FileNotWritable,
        "'" + path + "' cannot be written: folder '" + folder.string() +
            "': " + std::error_code(errno, std::generic_category()).message());
}

static void printSummary(const Session &session, uint64_t steps, double first,
                         double last, double seconds) {
  MemoryUse memory = session.memory();
  std::printf("%llu steps on %d ranks in %.1f s: loss %.4f -> %.4f\n",
              static_cast<unsigned long long>(steps), session.worldSize(),
              seconds, first, last);
  std::printf("peak memory a rank: predicted %s (%s tensors, at most %s "
              "scratch)\n",
              formatBytes(memory.arena + memory.scratchBound).c_str(),
              formatBytes(memory.arena).c_str(),
              formatBytes(memory.scratchBound).c_str());
  std::printf(
      "                    measured  %s (%s tensors, %s scratch, %s "
      "staging)\n",
      formatBytes(memory.arena + memory.scratch + memory.staging).c_str(),
      formatBytes(memory.arena).c_str(), formatBytes(memory.scratch).c_str(),
      formatBytes(memory.staging).c_str());
}

static void trainRank(Session &session, const TrainOptions &options) {
  std::optional<Metrics> metrics;
  std::optional<Progress> progress;
  bool isFirst = session.rank() == 0;
  if (!options.metricsPath.empty())
    metrics.emplace(session, options.metricsPath);
  if (isFirst && !options.exportPath.empty())
    checkWritable(options.exportPath);
  if (isFirst)
    progress.emplace(options.steps);

  double firstLoss = 0, lastLoss = 0;
  Clock::time_point begin = Clock::now(), last = begin;
  for (uint64_t i = 0; i < options.steps; ++i) {
    StepResult result = session.step();
    Clock::time_point now = Clock::now();
    double seconds = std::chrono::duration<double>(now - last).count();
    last = now;
    if (i == 0)
      firstLoss = result.loss;
    lastLoss = result.loss;
    if (metrics)
      metrics->write(result, seconds, i + 1 == options.steps);
    if (progress)
      progress->update(result);
  }
  if (!options.exportPath.empty())
    session.exportWeights(options.exportPath);
  if (isFirst) {
    double seconds = std::chrono::duration<double>(last - begin).count();
    printSummary(session, options.steps, firstLoss, lastLoss, seconds);
  }
}

void fsdp::train(const LaunchOptions &launchOptions,
                 const TrainOptions &options) {
  launch(launchOptions, [&](Session &session) { trainRank(session, options); });
}
